#include "transload/message/store.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/bytes.hpp"
#include "support/messages.hpp"
#include "support/resources.hpp"
#include "transload/adapters/value.hpp"
#include "transload/base/error.hpp"
#include "transload/message/checksum.hpp"
#include "transload/message/container.hpp"
#include "transload/message/header.hpp"
#include "transload/transload.hpp"

namespace transload {
namespace {

using test::error_of;
using test::random_bytes;
using test::same;
using test::stairs;

using Bytes = std::vector<std::byte>;

/// Bytes of which lz4 finds no two alike and zstd saves three of eight bits.
Bytes skewed(std::size_t nbytes) {
  Bytes bytes = random_bytes(nbytes, 5);
  for (std::byte& b : bytes) b = static_cast<std::byte>(std::to_integer<unsigned>(b) * 24 / 256);
  return bytes;
}

/// A message of one frame a payload (none is packed), which keeps them.
Message message_of(std::vector<Bytes> payloads) {
  auto const keeper = std::make_shared<std::vector<Bytes>>(std::move(payloads));
  HeaderWriter writer;
  for (Bytes const& payload : *keeper) writer.add_payload(payload);
  writer.add_family("host");
  writer.add_family("pickle");  // a fact in meta that must stay there
  writer.root().nil();
  return make_message(writer, LayoutLimits{.pack_limit = 0}, default_resource(), keeper);
}

Message stored(std::vector<Bytes> payloads, StoreOptions const& options, std::vector<StoredFrame>* report = nullptr) {
  return store(message_of(std::move(payloads)), options, default_resource(), report);
}

std::vector<Bytes> opened(Message message) {
  Header const header = Header::parse(message.header.bytes());
  open_frames(header, message.frames, default_resource());
  std::vector<Bytes> out;
  for (Buffer const& frame : message.frames) out.emplace_back(frame.bytes().begin(), frame.bytes().end());
  return out;
}

class Store : public testing::TestWithParam<Compression> {};

TEST_P(Store, EveryFrameComesBack) {
  std::vector<Bytes> const payloads = {stairs(100), stairs(8192), stairs(40'000), stairs(3'000'000), random_bytes(1'000'000), skewed(100'000), Bytes(5'000'000)};
  for (bool const checksum : {false, true}) {
    std::vector<StoredFrame> report;
    Message message = stored(payloads, {.compression = GetParam(), .checksum = checksum}, &report);
    ASSERT_EQ(report.size(), payloads.size());
    for (std::size_t i = 0; i < payloads.size(); ++i) {
      EXPECT_EQ(report[i].raw_nbytes, payloads[i].size());
      EXPECT_EQ(report[i].nbytes, message.frames[i].nbytes());
      EXPECT_EQ(report[i].codec.empty(), !report[i].reason.empty()) << report[i].reason;
      if (!report[i].codec.empty()) {
        EXPECT_LE(report[i].nbytes * 100, report[i].raw_nbytes * most_stored_percent);
      }
    }
    EXPECT_TRUE(report[0].codec.empty());
    EXPECT_FALSE(report[1].codec.empty());
    EXPECT_FALSE(report[3].codec.empty());
    EXPECT_TRUE(report[4].codec.empty());
    EXPECT_FALSE(report[6].codec.empty());
    EXPECT_EQ(opened(std::move(message)), payloads);
  }
}

INSTANTIATE_TEST_SUITE_P(Compressions, Store, testing::Values(Compression::automatic, Compression::lz4, Compression::zstd));

TEST(StoreAuto, TakesLz4WhereItPaysAndElseZstdWhereThatDoes) {
  std::vector<StoredFrame> report;
  Message const message = stored({stairs(100'000), skewed(100'000), random_bytes(100'000)}, {.compression = Compression::automatic}, &report);
  EXPECT_EQ(report[0].codec, "lz4");
  EXPECT_EQ(report[1].codec, "zstd");
  EXPECT_EQ(report[2].codec, "");
  Header const header = Header::parse(message.header.bytes());
  EXPECT_EQ(header.frame_codec, (std::vector<std::string_view>{"lz4", "zstd", ""}));
  EXPECT_EQ(header.families, (std::vector<std::string_view>{"host", "pickle"}));
}

TEST(StoreRaw, FramesThatAreNotCompressedAreNotTouched) {
  std::vector<Bytes> const payloads = {random_bytes(100'000), stairs(100)};
  test::CountingResource counted;
  Message message = message_of(payloads);
  std::vector<std::byte const*> const before = {message.frames[0].data(), message.frames[1].data()};
  message = store(std::move(message), {.compression = Compression::automatic}, counted);
  EXPECT_EQ((std::vector<std::byte const*>{message.frames[0].data(), message.frames[1].data()}), before);
  EXPECT_EQ(counted.held_nbytes(), 0U);
  EXPECT_LT(counted.peak_nbytes(), 100'000U) << "a sample is compressed, not the frame";
  EXPECT_TRUE(same(message.header.bytes(), message_of(payloads).header.bytes()));
}

TEST(StoreRaw, AFrameWhoseSampleFlattersItStaysAsItIs) {
  for (std::size_t nbytes : {100'000, 1'000'000}) {
    Bytes bytes = random_bytes(nbytes);
    for (std::uint64_t const at : sample_places(nbytes)) std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), 4096, std::byte{0});
    for (auto const compression : {Compression::automatic, Compression::lz4, Compression::zstd}) {
      std::vector<StoredFrame> report;
      Message message = message_of({bytes});
      std::byte const* const before = message.frames[0].data();
      message = store(std::move(message), {.compression = compression}, default_resource(), &report);
      EXPECT_EQ(report[0].codec, "");
      EXPECT_NE(report[0].reason.find("leaves more than 70 %, of a sample 1 %"), std::string::npos) << report[0].reason;
      EXPECT_EQ(message.frames[0].data(), before);
    }
  }
}

TEST(StoreSample, PlacesLieApartAllOverTheFrame) {
  for (std::uint64_t nbytes : {std::uint64_t{32'769}, std::uint64_t{262'144}, std::uint64_t{1'000'003}, std::uint64_t{1} << 40}) {
    auto const places = sample_places(nbytes);
    ASSERT_EQ(places.size(), nbytes < 262'144 ? 4U : 8U);
    for (std::size_t i = 0; i < places.size(); ++i) {
      EXPECT_GE(places[i], i * (nbytes / places.size()));
      EXPECT_LE(places[i] + 4096, (i + 1) * (nbytes / places.size()));
    }
  }
  EXPECT_TRUE(sample_places(32'768).empty());
}

TEST(StoreTwice, TheSameBytesAreStoredAlike) {
  StoreOptions const options{.compression = Compression::automatic, .checksum = true};
  Message const a = stored({stairs(2'000'000)}, options);
  Message const b = stored({stairs(2'000'000)}, options);
  EXPECT_TRUE(same(a.header.bytes(), b.header.bytes()));
  EXPECT_TRUE(same(a.frames[0].bytes(), b.frames[0].bytes()));
}

TEST(StoreTwice, FramesThatAreCompressedStaySoAndAreSummedUpAnew) {
  std::vector<Bytes> const payloads = {stairs(100'000), skewed(100'000)};
  Message const once = stored(payloads, {.compression = Compression::lz4});
  std::vector<StoredFrame> report;
  Message again;
  again.header = Buffer::borrow(once.header.bytes());
  for (Buffer const& frame : once.frames) again.frames.push_back(Buffer::borrow(frame.bytes()));
  again = store(std::move(again), {.compression = Compression::zstd, .checksum = true}, default_resource(), &report);
  EXPECT_EQ(report[0].codec, "lz4");
  EXPECT_EQ(report[0].raw_nbytes, 100'000U);
  EXPECT_EQ(report[1].codec, "zstd");
  EXPECT_EQ(again.frames[0].data(), once.frames[0].data());
  Header const header = Header::parse(again.header.bytes());
  EXPECT_EQ(header.frame_xxh3, (std::vector<std::uint64_t>{xxh3(again.frames[0].bytes()), xxh3(again.frames[1].bytes())}));
  EXPECT_EQ(opened(std::move(again)), payloads);
}

TEST(StoreChecksum, IsComparedBeforeTheFrameIsOpened) {
  Message message = stored({stairs(100'000)}, {.compression = Compression::lz4, .checksum = true});
  Bytes damaged(message.frames[0].bytes().begin(), message.frames[0].bytes().end());
  damaged[0] ^= std::byte{1};  // the codec's magic number: it would be the codec that complains
  message.frames[0] = Buffer::borrow(damaged);
  EXPECT_NE(error_of([&] { (void)Value::open(std::move(message)); }).find("frame 0: its bytes are not those of its checksum (XXH3)"), std::string::npos);
}

TEST(StoreChecksum, OfADeviceFrameIsRefused) {
  Bytes const bytes(100);
  Message message = message_of({bytes});
  message.frames[0] = Buffer::borrow(bytes, {}, MemoryKind::device);
  std::vector<StoredFrame> report;
  message = store(std::move(message), {.compression = Compression::automatic}, default_resource(), &report);
  EXPECT_EQ(report[0].reason, "device memory");
  EXPECT_NE(error_of([&] { (void)store(std::move(message), {.checksum = true}, default_resource()); }, ErrorKind::unsupported).find("device"), std::string::npos);
}

TEST(StoreNames, AreThoseOfThePythonSide) {
  EXPECT_EQ(compression_called("auto"), Compression::automatic);
  EXPECT_EQ(compression_called("lz4"), Compression::lz4);
  EXPECT_EQ(compression_called("zstd"), Compression::zstd);
  EXPECT_NE(error_of([] { (void)compression_called("gzip"); }, ErrorKind::unsupported).find("gzip"), std::string::npos);
}

// ── Bad input ───────────────────────────────────────────────────────────────────────────────────────────────────

/// The message of one payload of `nbytes` whose frame is `frame`, said to be compressed with `codec`.
Message claim(std::uint64_t nbytes, std::string_view codec, std::span<std::byte const> frame) {
  // [1, {}, [], [], [0, 2^62], [nbytes], nil]
  msgpack::Packer header;
  header.array(7);
  header.unsigned_integer(1);
  header.map(0);
  header.array(0);
  header.array(0);
  header.array(2);
  header.unsigned_integer(0);
  header.unsigned_integer(std::uint64_t{1} << 62);
  header.array(1);
  header.unsigned_integer(nbytes);
  header.nil();
  std::vector<std::string_view> const codecs = {codec};
  Message message;
  message.header = to_buffer(with_stored(header.bytes(), codecs, {}));
  message.frames.push_back(test::tight_copy(frame));
  return message;
}

Buffer compressed(std::string_view codec, std::span<std::byte const> bytes) {
  return std::move(*Compressor().try_compress(codec, bytes, UINT64_MAX, default_resource()));
}

TEST(OpenFrames, AClaimThatTheCodecCannotHoldIsRefusedBeforeMemoryIsTaken) {
  for (std::string_view const codec : {"lz4", "zstd"}) {
    Buffer const frame = compressed(codec, Bytes(100));
    test::CountingResource counted;
    auto const text = error_of([&] { (void)Value::open(claim(std::uint64_t{1} << 40, codec, frame.bytes()), counted); });
    EXPECT_NE(text.find(cat("frame 0: ", codec, ", byte 0: ", frame.nbytes(), " bytes cannot hold 1099511627776")), std::string::npos) << text;
    EXPECT_EQ(counted.peak_nbytes(), 0U);
  }
}

TEST(OpenFrames, ABombWithinTheRatioStopsAtTheLimit) {
  // 16 MiB of zeros are about 500 bytes of zstd: a claim that is true.
  Buffer const frame = compressed("zstd", Bytes(std::size_t{16} << 20));
  ASSERT_LT(frame.nbytes(), 2000U);
  test::CountingResource counted;
  auto const text = error_of([&] { (void)Value::open(claim(std::uint64_t{16} << 20, "zstd", frame.bytes()), counted, 1'000'000); }, ErrorKind::exhausted);
  EXPECT_NE(text.find("claim 16777216 bytes, the limit is 1000000"), std::string::npos) << text;
  EXPECT_EQ(counted.peak_nbytes(), 0U);
  EXPECT_TRUE(Value::open(claim(std::uint64_t{16} << 20, "zstd", frame.bytes()), counted, std::uint64_t{16} << 20).is_none());
}

TEST(OpenFrames, FramesAreLimitedTogetherNotOneByOne) {
  std::vector<Bytes> const payloads(10, Bytes(1'000'000));
  Message message = stored(payloads, {.compression = Compression::zstd});
  test::CountingResource counted;
  error_of([&] { (void)Value::open(std::move(message), counted, 5'000'000); }, ErrorKind::exhausted);
  EXPECT_EQ(counted.peak_nbytes(), 0U);
}

TEST(OpenFrames, NoFrameIsOpenedWhereALaterOneIsAlreadyWrong) {
  Message message = stored({stairs(100'000), stairs(100'000)}, {.compression = Compression::lz4});
  std::vector<std::string_view> const codecs = {"lz4", "brotli"};
  message.header = to_buffer(with_stored(message.header.bytes(), codecs, {}));
  test::CountingResource counted;
  auto const text = error_of([&] { (void)Value::open(std::move(message), counted); });
  EXPECT_EQ(text.substr(0, 5), "byte ") << text;
  EXPECT_NE(text.find("meta !codec: frame 1: compressed with brotli"), std::string::npos) << text;
  EXPECT_EQ(counted.peak_nbytes(), 0U);
}

TEST(OpenFrames, ADamagedFrameTellsTheByte) {
  Buffer const whole = compressed("lz4", stairs(300'000));
  Bytes damaged(whole.bytes().begin(), whole.bytes().end());
  damaged.resize(damaged.size() - 3);  // in the end mark
  auto const text = error_of([&] { (void)Value::open(claim(300'000, "lz4", damaged)); });
  EXPECT_NE(text.find(cat("frame 0: lz4, byte ", damaged.size(), ": ends inside a block's length")), std::string::npos) << text;
}

TEST(OpenFrames, FrameFactsThatAreThereTwiceOrTooOftenAreRefused) {
  auto const parse = [](auto const& fill) {
    msgpack::Packer header;
    header.array(7);
    header.unsigned_integer(1);
    fill(header);
    header.array(0);
    header.array(0);
    header.nil();
    header.array(0);
    header.nil();
    return error_of([&] { (void)Header::parse(header.bytes(), 1); });
  };
  EXPECT_NE(parse([](msgpack::Packer& header) {
              header.map(2);
              for (int i = 0; i < 2; ++i) {
                header.str("!codec");
                header.array(1);
                header.nil();
              }
            }).find("!codec comes twice"),
            std::string::npos);
  EXPECT_NE(parse([](msgpack::Packer& header) {
              header.map(1);
              header.str("!codec");
              header.array(2);
              header.nil();
              header.nil();
            }).find("meta !codec: 2 entries, one for each of 1 frames"),
            std::string::npos);
  EXPECT_NE(parse([](msgpack::Packer& header) {
              header.map(1);
              header.str("!codec");
              header.array(1);
              header.str("");
            }).find("meta !codec: a name without a letter"),
            std::string::npos);
  EXPECT_NE(parse([](msgpack::Packer& header) {
              header.map(1);
              header.str("xxh3");
              header.array(1);
              header.integer(-1);
            }).find("meta xxh3: not an int of 0 or more"),
            std::string::npos);
}

// ── The verbs ───────────────────────────────────────────────────────────────────────────────────────────────────

struct Reading {
  std::string name;
  std::vector<double> values;
};

TEST(WriteOptions, OfTheVerbsAreKept) {
  Reading const reading{.name = "seven", .values = std::vector<double>(100'000, 7.0)};
  Message message = serialize(reading, {.compression = Compression::automatic, .checksum = true});
  EXPECT_LT(message.nbytes(), 10'000U);
  EXPECT_EQ(Header::parse(message.header.bytes()).frame_xxh3.size(), 1U);
  auto const back = deserialize<Reading>(std::move(message));
  EXPECT_EQ(back.name, "seven");
  EXPECT_EQ(back.values, reading.values);
  EXPECT_EQ(loads<Reading>(dumps(reading, {.compression = Compression::zstd})).values, reading.values);
  EXPECT_EQ(serialize(reading).frames[0].nbytes(), 800'000U);
}

TEST(WriteOptions, OfAFileAreKeptAndItsFramesAreComparedBeforeTheyAreOpened) {
  auto const path = std::filesystem::temp_directory_path() / cat("store_test-", ::getpid(), ".tld");
  Reading const reading{.name = "seven", .values = std::vector<double>(100'000, 7.0)};
  save(path, reading, {.compression = Compression::lz4});
  EXPECT_LT(std::filesystem::file_size(path), 10'000U);
  EXPECT_EQ(load<Reading>(path).values, reading.values);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\1');
  }
  EXPECT_NE(error_of([&] { (void)load(path); }).find("XXH3"), std::string::npos);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace transload
