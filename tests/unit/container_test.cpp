#include "transload/message/container.hpp"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "transload/base/error.hpp"
#include "transload/message/checksum.hpp"

namespace transload {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> bytes_of(std::string const& text) {
  auto const* const data = reinterpret_cast<std::byte const*>(text.data());
  return {data, data + text.size()};
}

Message sample() {
  static std::vector<std::byte> const header = bytes_of("\x97 not looked at by the container");
  static std::vector<std::byte> const frame0 = bytes_of("hello");
  static std::vector<std::byte> const frame2(200, std::byte{7});
  Message message;
  message.header = Buffer::borrow(header);
  message.frames.push_back(Buffer::borrow(frame0));
  message.frames.emplace_back();
  message.frames.push_back(Buffer::borrow(frame2));
  return message;
}

std::vector<std::byte> write(Message const& message) {
  std::vector<std::byte> out;
  write_container(message, [&](std::span<std::byte const> bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); });
  return out;
}

Source reading(std::span<std::byte const> bytes, std::size_t& at) {
  return [bytes, &at](std::span<std::byte> out) {
    expects(out.size() <= bytes.size() - at, ErrorKind::disconnected, "the stream ends");
    std::memcpy(out.data(), bytes.data() + at, out.size());
    at += out.size();
  };
}

void expect_sample(Message const& message) {
  Message const want = sample();
  ASSERT_EQ(message.frames.size(), want.frames.size());
  auto const same = [](Buffer const& a, Buffer const& b) { return std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end()); };
  EXPECT_TRUE(same(message.header, want.header));
  for (std::size_t i = 0; i < want.frames.size(); ++i) EXPECT_TRUE(same(message.frames[i], want.frames[i])) << i;
}

/// Corrects the checksum of head and table, so that a corrupt field is met by its own check.
void seal(std::vector<std::byte>& bytes, std::size_t nframes = 3) {
  auto const all = std::span<std::byte const>(bytes);
  std::uint64_t const sum = xxh3({all.first(56), all.subspan(64, 24 * nframes)});
  std::memcpy(bytes.data() + 56, &sum, 8);
}

ErrorKind kind_of(std::function<void()> const& act, std::string* what = nullptr) {
  try {
    act();
  } catch (Error const& error) {
    if (what != nullptr) *what = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::failed;
}

struct Folder {
  Folder() {
    static int n = 0;
    path = fs::temp_directory_path() / cat("transload-test-", ::getpid(), "-", n++);
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

TEST(Container, GivesBackHeaderAndFramesWhereTheyLie) {
  auto const bytes = write(sample());
  EXPECT_EQ(bytes.size(), container_nbytes(sample()));
  Container const container = Container::parse(Buffer::borrow(bytes));
  expect_sample(container.message());
  Buffer const frame = container.frame(2);
  EXPECT_GE(frame.data(), bytes.data());
  EXPECT_LT(frame.data(), bytes.data() + bytes.size());
  EXPECT_EQ((frame.data() - bytes.data()) % 64, 0);
}

TEST(Container, FramesKeepTheBytesAlive) {
  auto keeper = std::make_shared<std::vector<std::byte>>(write(sample()));
  std::weak_ptr<std::vector<std::byte>> const seen = keeper;
  Buffer frame;
  {
    Container const container = Container::parse(Buffer::borrow(*keeper, keeper));
    keeper.reset();
    frame = container.frame(0);
  }
  EXPECT_FALSE(seen.expired());
  EXPECT_EQ(std::memcmp(frame.data(), "hello", 5), 0);
  frame.reset();
  EXPECT_TRUE(seen.expired());
}

TEST(Container, CutAnywhereIsMalformed) {
  auto const bytes = write(sample());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_EQ(kind_of([&] { (void)Container::parse(Buffer::borrow(std::span(bytes).first(n)), Check::all); }), ErrorKind::malformed) << n;
  }
}

TEST(Container, ACutStreamIsDisconnected) {
  auto const bytes = write(sample());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    std::size_t at = 0;
    EXPECT_EQ(kind_of([&] { (void)read_container(reading(std::span(bytes).first(n), at), default_resource()); }), ErrorKind::disconnected) << n;
  }
}

TEST(Container, EachFlippedByteIsFound) {
  auto const good = write(sample());
  for (std::size_t i = 0; i < good.size(); ++i) {
    auto bytes = good;
    bytes[i] ^= std::byte{0x10};
    EXPECT_EQ(kind_of([&] { (void)Container::parse(Buffer::borrow(bytes), Check::all); }), ErrorKind::malformed) << i;
    std::size_t at = 0;
    auto const kind = kind_of([&] { (void)read_container(reading(bytes, at), default_resource()); });
    EXPECT_TRUE(kind == ErrorKind::malformed || kind == ErrorKind::disconnected || kind == ErrorKind::exhausted) << i;
  }
}

TEST(Container, BytesBehindItAreMalformedInAFileAndLeftAloneInAStream) {
  auto bytes = write(sample());
  std::size_t const nbytes = bytes.size();
  bytes.push_back(std::byte{0});
  std::string what;
  EXPECT_EQ(kind_of([&] { (void)Container::parse(Buffer::borrow(bytes)); }, &what), ErrorKind::malformed);
  EXPECT_NE(what.find("1 bytes behind"), std::string::npos) << what;
  std::size_t at = 0;
  expect_sample(read_container(reading(bytes, at), default_resource()));
  EXPECT_EQ(at, nbytes);
}

struct Corruption {
  char const* name;
  std::size_t at;
  std::uint64_t value;
  std::size_t width;
};

class ContainerField : public testing::TestWithParam<Corruption> {};

TEST_P(ContainerField, IsCheckedByItself) {
  auto const [name, at, value, width] = GetParam();
  auto bytes = write(sample());
  std::memcpy(bytes.data() + at, &value, width);
  seal(bytes);
  std::string what;
  EXPECT_EQ(kind_of([&] { (void)Container::parse(Buffer::borrow(bytes), Check::all); }, &what), ErrorKind::malformed);
  EXPECT_NE(what.find(name), std::string::npos) << what;
}

INSTANTIATE_TEST_SUITE_P(
    Fields, ContainerField,
    testing::Values(Corruption{"magic", 0, 0, 1}, Corruption{"version", 8, 2, 4}, Corruption{"flags", 12, 1, 4},
                    Corruption{"nframes", 16, ~std::uint64_t{0}, 8}, Corruption{"nframes", 16, (std::uint64_t{1} << 24) + 1, 8},
                    Corruption{"header_nbytes", 24, std::uint64_t{1} << 31, 8}, Corruption{"header", 32, 0, 8},
                    Corruption{"total", 40, ~std::uint64_t{0}, 8}, Corruption{"total", 40, 0, 8}, Corruption{"reserved", 48, 1, 8},
                    Corruption{"offset", 64, 0, 8}, Corruption{"offset", 64, 129, 8}, Corruption{"offset", 64, ~std::uint64_t{63}, 8},
                    Corruption{"bytes", 72, ~std::uint64_t{0}, 8}, Corruption{"offset", 72, 4, 8}, Corruption{"XXH3", 80, 0, 8},
                    Corruption{"total", 64 + 48 + 8, 199, 8}, Corruption{"bytes", 64 + 48 + 8, 201, 8}));

TEST(Container, AGapThatIsNotZeroIsMalformed) {
  auto bytes = write(sample());
  bytes[64 + 72 + sample().header.nbytes()] = std::byte{1};
  EXPECT_EQ(kind_of([&] { (void)Container::parse(Buffer::borrow(bytes), Check::all); }), ErrorKind::malformed);
}

TEST(Container, LazilyABadFrameIsFoundWhenItIsUsed) {
  auto bytes = write(sample());
  bytes.back() ^= std::byte{1};
  Container const container = Container::parse(Buffer::borrow(bytes));
  EXPECT_NO_THROW((void)container.frame(0));
  EXPECT_THROW((void)container.frame(2), Error);
  EXPECT_THROW((void)container.message(), Error);
}

TEST(Container, AStreamAboveTheLimitIsExhaustedBeforeMemoryIsTaken) {
  auto const bytes = write(sample());
  std::size_t at = 0;
  EXPECT_EQ(kind_of([&] { (void)read_container(reading(bytes, at), default_resource(), {.total_nbytes = 100}); }), ErrorKind::exhausted);
  EXPECT_EQ(at, 64U);
}

TEST(Container, AFileIsMappedAndOutlivesItsReplacement) {
  Folder const folder;
  auto const path = folder.path / "a.tld";
  save_container(path, sample(), {.sync = true});
  Message const mapped = Container::open(path).message();
  save_container(path, Message{});
  expect_sample(mapped);
  EXPECT_EQ(fs::file_size(path), 64U);
}

TEST(Container, WritingToAMappedFrameLeavesTheFileAlone) {
  Folder const folder;
  auto const path = folder.path / "a.tld";
  save_container(path, sample());
  {
    Message message = Container::open(path).message();
    message.frames[0].writable()[0] = std::byte{'J'};
  }
  expect_sample(Container::open(path).message());
}

TEST(Container, AFailedSaveLeavesNothingBehind) {
  Folder const folder;
  auto const path = folder.path / "sub";
  fs::create_directory(path);
  EXPECT_EQ(kind_of([&] { save_container(path, sample()); }), ErrorKind::failed);
  EXPECT_EQ(kind_of([&] { save_container(folder.path / "missing" / "a.tld", sample()); }), ErrorKind::failed);
  EXPECT_EQ(kind_of([&] { save_container("/dev/full", sample()); }), ErrorKind::exhausted);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()), 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(path), fs::directory_iterator()), 0);
}

TEST(Container, SavingThroughALinkWritesTheFileItNames) {
  Folder const folder;
  auto const path = folder.path / "a.tld";
  save_container(path, Message{});
  fs::create_symlink("a.tld", folder.path / "link");
  save_container(folder.path / "link", sample());
  EXPECT_TRUE(fs::is_symlink(folder.path / "link"));
  expect_sample(Container::open(path).message());
}

TEST(Container, TwoWritersOfOneFileLeaveOneOfTheirContainers) {
  Folder const folder;
  auto const path = folder.path / "a.tld";
  auto const save = [&] {
    for (int i = 0; i < 50; ++i) save_container(path, sample());
  };
  std::thread one(save);
  std::thread two(save);
  one.join();
  two.join();
  expect_sample(Container::open(path).message());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()), 1);
}

TEST(Container, AMissingFileIsNamed) {
  std::string what;
  EXPECT_EQ(kind_of([&] { (void)Container::open("/nowhere/a.tld"); }, &what), ErrorKind::failed);
  EXPECT_NE(what.find("/nowhere/a.tld"), std::string::npos) << what;
}

}  // namespace
}  // namespace transload
