// A forest of treelite's: the input is its bytes. What is accepted can be walked from every root to its leaves, and is the same when it is written
// without statistics and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "transload/adapters/forest.hpp"
#include "transload/base/error.hpp"

using namespace transload;

namespace {

constexpr std::size_t model_fields = 20;
constexpr std::size_t tree_fields = 25;

template <class T>
T item(ForestField const& field, std::uint64_t i) {
  if (i >= field.n || field.itemsize != sizeof(T)) std::abort();
  T value;
  std::memcpy(&value, field.data + i * sizeof(T), sizeof(T));
  return value;
}

/// From the root, as an evaluator may go: every node once at most.
void walk(std::span<ForestField const> tree, std::int32_t nfeatures) {
  auto const n = item<std::int32_t>(tree[0], 0);
  std::vector<std::int32_t> todo{0};
  std::int32_t seen = 0;
  while (!todo.empty()) {
    auto const node = static_cast<std::uint64_t>(todo.back());
    todo.pop_back();
    if (++seen > n) std::abort();
    auto const begin = item<std::uint64_t>(tree[12], node);
    auto const end = item<std::uint64_t>(tree[13], node);
    if (end > begin) (void)tree[11].data[(end - 1) * tree[11].itemsize];
    if (item<std::int8_t>(tree[2], node) == 0) continue;
    if (item<std::int32_t>(tree[5], node) >= nfeatures) std::abort();
    for (std::uint64_t i = item<std::uint64_t>(tree[15], node); i < item<std::uint64_t>(tree[16], node); ++i) (void)item<std::uint32_t>(tree[14], i);
    todo.push_back(item<std::int32_t>(tree[3], node));
    todo.push_back(item<std::int32_t>(tree[4], node));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::span const bytes(reinterpret_cast<std::byte const*>(data), size);
  Forest forest;
  try {
    forest = read_forest(bytes);
  } catch (Error const&) {
    return 0;
  }
  if (forest.fields.size() != model_fields + forest.ntrees * tree_fields) std::abort();
  for (std::uint64_t i = 0; i < forest.ntrees; ++i) walk(std::span(forest.fields).subspan(model_fields + i * tree_fields, tree_fields), forest.nfeatures);
  std::vector<std::byte> slim;
  write_for_prediction(forest, [&](std::size_t nbytes) {
    slim.resize(nbytes);
    return std::span(slim);
  });
  Forest const again = read_forest(slim);
  if (again.nnodes != forest.nnodes || again.ntrees != forest.ntrees || slim.size() > size) std::abort();
  return 0;
}
