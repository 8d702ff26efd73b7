#include "transload/adapters/forest.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "support/messages.hpp"
#include "transload/base/error.hpp"

namespace transload {
namespace {

using test::error_of;

/// The fields of a model as treelite has them in memory: one tree of three nodes, a number a leaf.
struct Model {
  std::vector<std::vector<std::byte>> contents;
  std::vector<std::size_t> itemsizes;
  std::vector<TreeliteFrame> frames;

  template <class T>
  void add(std::vector<T> const& items) {
    auto const* const bytes = reinterpret_cast<std::byte const*>(items.data());
    contents.emplace_back(bytes, bytes + items.size() * sizeof(T));
    itemsizes.push_back(sizeof(T));
  }
  template <class T>
  void replace(std::size_t field, std::vector<T> const& items) {
    auto const* const bytes = reinterpret_cast<std::byte const*>(items.data());
    contents[field].assign(bytes, bytes + items.size() * sizeof(T));
  }
  void lay_out() {
    frames.clear();
    for (std::size_t i = 0; i < contents.size(); ++i) frames.push_back({contents[i].empty() ? nullptr : contents[i].data(), nullptr, itemsizes[i], contents[i].size() / itemsizes[i]});
  }
};

using i8 = std::vector<std::int8_t>;
using u8 = std::vector<std::uint8_t>;
using i32 = std::vector<std::int32_t>;
using u32 = std::vector<std::uint32_t>;
using u64 = std::vector<std::uint64_t>;
using f32 = std::vector<float>;
using f64 = std::vector<double>;

Model model() {
  Model m;
  m.add(i32{4}), m.add(i32{8}), m.add(i32{1}), m.add(u8{2}), m.add(u8{2}), m.add(u64{1});  // version, types, trees
  m.add(i32{3}), m.add(u8{1}), m.add(u8{0}), m.add(i32{1}), m.add(i32{1}), m.add(i32{1, 1}), m.add(i32{0}), m.add(i32{0});
  m.add(i8{'i', 'd'}), m.add(f32{1}), m.add(f32{1}), m.add(f64{0}), m.add(i8{}), m.add(i32{0});
  m.add(i32{3}), m.add(u8{0}), m.add(i8{1, 0, 0}), m.add(i32{1, -1, -1}), m.add(i32{2, -1, -1}), m.add(i32{2, -1, -1}), m.add(u8{1, 0, 0});
  m.add(f32{0, 5, 6}), m.add(f32{0.5F, 0, 0}), m.add(i8{2, 0, 0}), m.add(u8{0, 0, 0}), m.add(f32{}), m.add(u64{0, 0, 0}), m.add(u64{0, 0, 0});
  m.add(u32{}), m.add(u64{0, 0, 0}), m.add(u64{0, 0, 0}), m.add(u64{9, 4, 5}), m.add(u8{1, 1, 1}), m.add(f64{}), m.add(u8{}), m.add(f64{}), m.add(u8{}), m.add(i32{0}), m.add(i32{0});
  m.lay_out();
  return m;
}

/// treelite's functions over such a model.
Model given;
std::vector<TreeliteFrame> taken;
bool fails = false;
Treelite twin() {
  return {.serialize = [](void*, TreeliteFrame** frames, std::size_t* n) { *frames = given.frames.data(), *n = given.frames.size(); return fails ? -1 : 0; },
          .deserialize = [](TreeliteFrame* frames, std::size_t n, void** out) { taken.assign(frames, frames + n), *out = &given; return fails ? -1 : 0; },
          .free_model = [](void*) { return 0; },
          .last_error = [] { return "the twin's reason"; }};
}

std::string why(Model changed, ErrorKind kind = ErrorKind::malformed) {
  changed.lay_out();
  given = std::move(changed);
  given.lay_out();
  Buffer const bytes = from_treelite(twin(), nullptr);
  return error_of([&] { (void)read_forest(bytes.bytes()); }, kind);
}

TEST(Forest, IsWrittenReadAndHandedOver) {
  given = model();
  given.lay_out();
  Buffer const bytes = from_treelite(twin(), nullptr);
  Forest const forest = read_forest(bytes.bytes(), TreeliteVersion{4, 8, 1});
  EXPECT_EQ(forest.ntrees, 1U);
  EXPECT_EQ(forest.nnodes, 3U);
  EXPECT_EQ(forest.nfeatures, 3);
  EXPECT_FALSE(forest.doubles);
  TreeliteModel const made = to_treelite(twin(), forest);
  EXPECT_EQ(made.handle, &given);
  ASSERT_EQ(taken.size(), given.frames.size());
  for (std::size_t i = 0; i < taken.size(); ++i) {
    ASSERT_EQ(taken[i].nitem, given.frames[i].nitem) << i;
    ASSERT_EQ(taken[i].itemsize, given.frames[i].itemsize) << i;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(taken[i].buf) % 16, 0U) << i;
    EXPECT_EQ(std::memcmp(taken[i].buf == nullptr ? given.frames.data() : taken[i].buf, taken[i].buf == nullptr ? reinterpret_cast<void*>(given.frames.data()) : given.frames[i].buf, taken[i].nitem * taken[i].itemsize), 0) << i;
  }
  std::vector<std::byte> slim;
  write_for_prediction(forest, [&](std::size_t nbytes) {
    slim.resize(nbytes);
    return std::span(slim);
  });
  EXPECT_EQ(slim.size(), bytes.nbytes() - 3 * 8 - 3);
  EXPECT_EQ(read_forest(slim).nnodes, 3U);
}

TEST(Forest, WhatIsWrongIsNamed) {
  auto const changed = [](std::size_t field, auto const& items) {
    Model m = model();
    m.replace(field, items);
    return m;
  };
  EXPECT_NE(why(changed(20, i32{4})).find("node_type has 3 items for 4 nodes"), std::string::npos);
  EXPECT_NE(why(changed(22, i8{3, 0, 0})).find("node_type is 3"), std::string::npos);
  EXPECT_NE(why(changed(23, i32{3, -1, -1})).find("cleft 3 and cright 2 of 3 nodes"), std::string::npos);
  EXPECT_NE(why(changed(23, i32{2, -1, -1})).find("is the child of two"), std::string::npos);
  EXPECT_NE(why(changed(25, i32{3, -1, -1})).find("split_index 3 of 3 features"), std::string::npos);
  EXPECT_NE(why(changed(33, u64{0, 1, 0})).find("leaf_vector from 0 to 1 of 0"), std::string::npos);
  EXPECT_NE(why(changed(36, u64{0, 0, 9})).find("category_list from 0 to 9 of 0"), std::string::npos);
  EXPECT_NE(why(changed(38, u8{1, 1})).find("data_count_present has 2 items for 3 nodes"), std::string::npos);
  EXPECT_NE(why(changed(5, u64{std::uint64_t{1} << 60})).find("num_tree"), std::string::npos);
  EXPECT_NE(why(changed(12, i32{5})).find("target_id 5"), std::string::npos);
  EXPECT_NE(why(changed(0, i32{3}), ErrorKind::unsupported).find("3.8.1"), std::string::npos);
  EXPECT_NE(why(changed(43, i32{1}), ErrorKind::unsupported).find("num_opt_field_per_tree is 1"), std::string::npos);
}

TEST(Forest, WhatTreeliteSaysIsTold) {
  given = model();
  given.lay_out();
  Buffer const bytes = from_treelite(twin(), nullptr);
  fails = true;
  EXPECT_NE(error_of([] { (void)from_treelite(twin(), nullptr); }, ErrorKind::failed).find("the twin's reason"), std::string::npos);
  EXPECT_NE(error_of([&] { (void)to_treelite(twin(), read_forest(bytes.bytes())); }, ErrorKind::failed).find("the twin's reason"), std::string::npos);
  fails = false;
  given.frames.pop_back();
  error_of([] { (void)from_treelite(twin(), nullptr); }, ErrorKind::unsupported);
  error_of([] { (void)Treelite::open("/no/such/library.so"); }, ErrorKind::unsupported);
  error_of([] { (void)Treelite::open("libm.so.6"); }, ErrorKind::unsupported);
}

}  // namespace
}  // namespace transload
