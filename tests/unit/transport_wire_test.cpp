// What both ends must agree on without a word: addresses, hellos, records, who carries which bytes, where they land.
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "support/messages.hpp"
#include "transload/base/error.hpp"
#include "transload/base/limits.hpp"
#include "transload/message/msgpack.hpp"
#include "transload/transport/address.hpp"
#include "transload/transport/hello.hpp"
#include "transload/transport/landing.hpp"
#include "transload/transport/record.hpp"
#include "transload/transport/share.hpp"

namespace transload {
namespace {

using test::error_of;

std::span<std::byte const> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// ── addresses ────────────────────────────────────────────────────────────────────────────────────────────

TEST(Address, IsReadWithAndWithoutPortAndBrackets) {
  EXPECT_EQ(Address::parse("127.0.0.1:80"), (Address{"127.0.0.1", 80}));
  EXPECT_EQ(Address::parse("transload://host.name:1"), (Address{"host.name", 1}));
  EXPECT_EQ(Address::parse("transload+tls://[::1]:65535"), (Address{"::1", 65535}));
  EXPECT_EQ(Address::parse("[fe80::1%eth0]"), (Address{"fe80::1%eth0", 0}));
  EXPECT_EQ(Address::parse("::1"), (Address{"::1", 0}));
  EXPECT_EQ(Address::parse("host"), (Address{"host", 0}));
  EXPECT_EQ(Address::parse(":8786"), (Address{"", 8786}));
  EXPECT_EQ((Address{"::1", 5}).text(), "[::1]:5");
  EXPECT_EQ((Address{"a", 5}).text(), "a:5");
}

TEST(Address, OfAnotherKindIsRefused) {
  for (auto const* text : {"tcp://a:1", "a:b", "a:65536", "a:-1", "[::1", "[::1]80", "a:1x", "inproc://1/2/3"}) {
    EXPECT_NE(error_of([&] { (void)Address::parse(text); }, ErrorKind::unsupported), "") << text;
  }
}

// ── hellos ───────────────────────────────────────────────────────────────────────────────────────────────

Hello sample() {
  Hello hello;
  hello.software = "transload 9";
  hello.token = random_token();
  hello.stream = 3;
  hello.host = HostIdentity::of_this_process();
  hello.local_name = "name";
  hello.nframes_most = 7;
  hello.message_nbytes_most = std::uint64_t{1} << 62;
  hello.window_nbytes = 9;
  hello.streams = 10;
  hello.local_streams = 11;
  hello.same_process = true;
  hello.kinds = 1;
  hello.exports = true;
  return hello;
}

Hello read(std::span<std::byte const> bytes) {
  EXPECT_EQ(hello_nbytes(bytes.first(hello_head_nbytes)), bytes.size() - hello_head_nbytes);
  return parse_hello(bytes.subspan(hello_head_nbytes));
}

TEST(Hello, ComesBackAsItWas) {
  Hello const hello = sample();
  EXPECT_EQ(read(pack_hello(hello)), hello);
}

TEST(Hello, RefusalCarriesItsReason) {
  Hello hello;
  hello.software = "x";
  hello.refused = "too old";
  EXPECT_EQ(read(pack_hello(hello)).refused, "too old");
}

TEST(Hello, WhatAPeerSaysInWordsIsOneShortLine) {
  Hello hello;
  hello.software = "x\r\nGET /";
  hello.refused = "no\n2026-01-01 - root - INFO - all is well\x1b[2J" + std::string(50'000, 'y');
  Hello const back = read(pack_hello(hello));
  EXPECT_EQ(back.software, "x??GET /");
  EXPECT_TRUE(back.refused.starts_with("no?2026-01-01 - root - INFO - all is well?[2Jyyy")) << back.refused;
  EXPECT_LE(back.refused.size(), 1000u);
}

TEST(Hello, PassesOverKeysOfALaterVersion) {
  msgpack::Packer packer;
  packer.map(3);
  packer.str("rdma");
  packer.map(1);
  packer.str("ports");
  packer.array(0);
  packer.str("version");
  packer.array(2);
  packer.integer(1);
  packer.integer(4);
  packer.str("host");
  packer.map(1);
  packer.str("rack");
  packer.integer(7);
  Hello const hello = parse_hello(packer.bytes());
  EXPECT_EQ(hello.version_most, 4u);
  EXPECT_EQ(common_version(sample(), hello), 1u);
}

TEST(Hello, WithoutACommonVersionSaysBothRanges) {
  Hello theirs = sample();
  theirs.version_least = 2;
  theirs.version_most = 3;
  theirs.software = "transload 99";
  auto const what = error_of([&] { (void)common_version(sample(), theirs); }, ErrorKind::unsupported);
  EXPECT_NE(what.find("1 … 1"), std::string::npos) << what;
  EXPECT_NE(what.find("2 … 3 (transload 99)"), std::string::npos) << what;
}

TEST(Hello, CutOrChangedAnywhereIsMalformedOrStillAHello) {
  auto const whole = pack_hello(sample());
  for (std::size_t n = hello_head_nbytes; n < whole.size(); ++n) {
    EXPECT_NE(error_of([&] { (void)parse_hello(std::span(whole).subspan(hello_head_nbytes, n - hello_head_nbytes)); }), "");
  }
  for (std::size_t i = hello_head_nbytes; i < whole.size(); ++i) {
    for (unsigned const bits : {0xffu, 0x01u, 0x80u}) {
      auto changed = whole;
      changed[i] ^= static_cast<std::byte>(bits);
      try {
        (void)parse_hello(std::span(changed).subspan(hello_head_nbytes));
      } catch (Error const& error) {
        EXPECT_EQ(error.kind(), ErrorKind::malformed);
      }
    }
  }
}

TEST(Hello, OverItsLimitIsRefusedBeforeItIsRead) {
  auto head = pack_hello(sample());
  head.resize(hello_head_nbytes);
  auto const n = static_cast<std::uint32_t>(limits::hello_nbytes + 1);
  std::memcpy(head.data() + 8, &n, 4);
  EXPECT_NE(error_of([&] { (void)hello_nbytes(head); }).find("65536 are the most"), std::string::npos);
}

TEST(Hello, StrangersAreNamed) {
  EXPECT_EQ(looks_like(bytes_of("GET / HTTP/1.1")), "HTTP");
  EXPECT_EQ(looks_like(bytes_of("SSH-2.0-OpenSSH")), "SSH");
  EXPECT_EQ(looks_like(bytes_of("\x16\x03\x01\x02\x00\x01")), "TLS");
  std::string dask(24, '\0');
  dask[0] = 83;
  dask[8] = 1;
  dask[16] = 67;
  EXPECT_EQ(looks_like(bytes_of(dask)), "Dask's tcp://");
  EXPECT_EQ(looks_like(bytes_of("\xff\x01\xee\xff\xff\xff\xff\xff")), "the bytes ff 01 ee ff ff ff ff ff");
  EXPECT_EQ(looks_like({}), "nothing");
}

// ── records ──────────────────────────────────────────────────────────────────────────────────────────────

constexpr RecordLimits roomy{.nframes_most = 1 << 20, .message_nbytes_most = std::uint64_t{1} << 40};

/// Feeds `bytes` in pieces of `piece`; the records in order.
std::vector<Record> feed(std::span<std::byte const> bytes, std::size_t piece, RecordLimits limits = roomy) {
  RecordReader reader(limits);
  std::vector<Record> records;
  while (!bytes.empty()) {
    std::size_t const used = reader.feed(bytes.first(std::min(piece, bytes.size())));
    EXPECT_GT(used, 0u);
    bytes = bytes.subspan(used);
    if (reader.complete()) records.push_back(reader.take());
  }
  EXPECT_FALSE(reader.midway());
  return records;
}

TEST(Records, ComeBackInPiecesOfAnySize) {
  std::vector<std::byte> bytes;
  pack_record({.type = RecordType::grant, .number = 123456789}, bytes);
  pack_record({.type = RecordType::message, .follows = true, .nstreams = 2, .chunk_nbytes = 65536, .number = 5, .sizes = {0, 1, 70000, std::uint64_t{1} << 33}}, bytes);
  pack_record({.type = RecordType::message, .number = 6}, bytes);
  pack_record({.type = RecordType::streams, .please = true, .nstreams = 4}, bytes);
  pack_record({.type = RecordType::goodbye}, bytes);
  for (std::size_t const piece : {1u, 3u, 7u, 8u, 24u, 25u, 1000u}) {
    auto const records = feed(bytes, piece);
    ASSERT_EQ(records.size(), 5u);
    EXPECT_EQ(records[0].number, 123456789u);
    EXPECT_TRUE(records[1].follows);
    EXPECT_EQ(records[1].sizes, (std::vector<std::uint64_t>{0, 1, 70000, std::uint64_t{1} << 33}));
    EXPECT_EQ(records[1].nbytes, 70001 + (std::uint64_t{1} << 33));
    EXPECT_EQ(records[1].chunk_nbytes, 65536u);
    EXPECT_TRUE(records[2].sizes.empty());
    EXPECT_FALSE(records[2].follows);
    EXPECT_TRUE(records[3].please);
    EXPECT_EQ(records[4].type, RecordType::goodbye);
  }
}

std::string refusal(Record const& record, RecordLimits limits = roomy) {
  std::vector<std::byte> bytes;
  pack_record(record, bytes);
  return error_of([&] { (void)feed(bytes, 5, limits); });
}

TEST(Records, OverALimitAreRefusedFieldByField) {
  EXPECT_NE(refusal({.type = static_cast<RecordType>(9)}).find("type 9"), std::string::npos);
  EXPECT_NE(refusal({.type = RecordType::body, .nstreams = 65, .chunk_nbytes = 4096}).find("65 streams"), std::string::npos);
  EXPECT_NE(refusal({.type = RecordType::body, .nstreams = 1, .chunk_nbytes = 0}).find("chunks of 0"), std::string::npos);
  EXPECT_NE(refusal({.type = RecordType::body, .nstreams = 1, .chunk_nbytes = 4097}).find("chunks of 4097"), std::string::npos);
  EXPECT_NE(refusal({.type = RecordType::message, .sizes = {1, 2, 3}}, {.nframes_most = 2, .message_nbytes_most = 100}).find("3 frames; 2 are"), std::string::npos);
  EXPECT_NE(refusal({.type = RecordType::message, .sizes = {60, 41}}, {.nframes_most = 2, .message_nbytes_most = 100}).find("100 are the most"), std::string::npos);
  EXPECT_NE(refusal({.type = RecordType::message, .sizes = {60, record_size_most - 10}}).find("are the most of a message"), std::string::npos);
}

TEST(Records, KindsOfFramesAreToldWhereTheyWereAskedFor) {
  constexpr auto plain = FrameKind::plain;
  constexpr auto object = FrameKind::object;
  Record const record{.type = RecordType::message, .sizes = {5000, (std::uint64_t{1} << 39) + 1, 7, 0}, .kinds = {plain, object, plain, object}};
  std::vector<std::byte> bytes;
  pack_record(record, bytes);
  RecordLimits asked = roomy;
  asked.kinds_most = 1;
  for (std::size_t const piece : {3u, 8u, 1000u}) {
    auto const records = feed(bytes, piece, asked);
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].sizes, record.sizes);
    EXPECT_EQ(records[0].kinds, record.kinds);
    EXPECT_EQ(records[0].nbytes, 5008 + (std::uint64_t{1} << 39));
  }
  EXPECT_NE(refusal(record).find("frame 1: kind 1; this end asked for 0"), std::string::npos);
  EXPECT_NE(refusal({.type = RecordType::message, .sizes = {5000}, .kinds = {static_cast<FrameKind>(255)}}, asked).find("frame 0: kind 255"), std::string::npos);
}

ExportedMemory exported(std::uint64_t nbytes, unsigned seed) {
  ExportedMemory memory{.allocation = seed + 1, .offset = 3 * seed, .nbytes = nbytes};
  memory.handle.fill(static_cast<std::byte>(seed));
  memory.device.fill(static_cast<std::byte>(seed + 7));
  return memory;
}

TEST(Records, DeviceFramesAreNotOfTheBodyAndMaySayWhereTheyLie) {
  constexpr auto plain = FrameKind::plain;
  constexpr auto device = FrameKind::device;
  Record const record{.type = RecordType::message, .follows = true, .sizes = {5, 1 << 20, 7, 0, 9}, .kinds = {plain, device, plain, device, plain},
                      .exported = {exported(1 << 20, 1), exported(0, 2)}};
  std::vector<std::byte> bytes;
  pack_record(record, bytes);
  pack_record({.type = RecordType::fetch, .unable = true, .number = 4}, bytes);
  pack_record({.type = RecordType::device, .nstreams = 2, .chunk_nbytes = 65536, .number = 4}, bytes);
  pack_record({.type = RecordType::fetched, .number = 5}, bytes);
  RecordLimits asked = roomy;
  asked.kinds_most = 2;
  for (std::size_t const piece : {3u, 8u, 105u, 1000u}) {
    auto const records = feed(bytes, piece, asked);
    ASSERT_EQ(records.size(), 4u);
    EXPECT_EQ(records[0].kinds, record.kinds);
    EXPECT_EQ(records[0].nbytes, 21u);
    EXPECT_EQ(records[0].device_nbytes, 1u << 20);
    EXPECT_EQ(records[0].exported, record.exported);
    EXPECT_TRUE(records[1].unable);
    EXPECT_EQ(records[2].nstreams, 2u);
    EXPECT_EQ(records[3].number, 5u);
  }
  EXPECT_NE(refusal({.type = RecordType::message, .sizes = {5, 6}, .kinds = {device, plain}, .exported = {exported(6, 1)}}, asked).find("frame 0: 5 bytes, of which 6 are exported"), std::string::npos);
  EXPECT_NE(refusal({.type = RecordType::message, .sizes = {5}, .exported = {exported(5, 1)}}, asked).find("exported memory, and no frames of it"), std::string::npos);
  EXPECT_NE(refusal(record).find("flags 3"), std::string::npos);
}

TEST(Records, UnknownFlagsAreRefused) {
  std::vector<std::byte> bytes;
  pack_record({.type = RecordType::grant}, bytes);
  bytes[1] = std::byte{2};
  EXPECT_NE(error_of([&] { (void)feed(bytes, 24); }).find("flags 2"), std::string::npos);
}

TEST(Records, ManyFramesTakeNoMemoryBeforeTheirSizesCame) {
  std::vector<std::byte> bytes;
  pack_record({.type = RecordType::message, .number = 0}, bytes);
  std::uint32_t const nframes = 1 << 24;
  std::memcpy(bytes.data() + 4, &nframes, 4);
  RecordReader reader({.nframes_most = 1 << 24, .message_nbytes_most = 100});
  EXPECT_EQ(reader.feed(bytes), bytes.size());
  EXPECT_FALSE(reader.complete());
  EXPECT_TRUE(reader.midway());
}

// ── shares ───────────────────────────────────────────────────────────────────────────────────────────────

TEST(Share, GivesEveryByteToOneStreamInOrder) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::vector<std::byte>> memory(1 + random() % 6);
    std::vector<iovec> frames;
    for (auto& one : memory) {
      one.resize(random() % 4 == 0 ? 0 : random() % 500'000);
      frames.push_back({one.data(), one.size()});
    }
    unsigned const nstreams = 1 + random() % 5;
    std::size_t const chunk = 4096 + 64 * (random() % 2000);
    // Replay the rule byte by byte: chunk c of the run belongs to stream c % nstreams.
    std::size_t total = 0;
    for (auto const& frame : frames) total += frame.iov_len;
    std::size_t given = 0;
    for (unsigned i = 0; i < nstreams; ++i) {
      Pieces pieces = share(frames, nstreams, i, chunk);
      given += pieces.nbytes();
      std::size_t run = 0;
      std::vector<std::pair<void*, std::size_t>> wanted;
      for (auto const& frame : frames) {
        for (std::size_t at = 0; at < frame.iov_len;) {
          std::size_t const c = (run + at) / chunk;
          std::size_t const n = std::min(frame.iov_len - at, (c + 1) * chunk - (run + at));
          if (c % nstreams == i) wanted.emplace_back(static_cast<std::byte*>(frame.iov_base) + at, n);
          at += n;
        }
        run += frame.iov_len;
      }
      std::vector<std::pair<void*, std::size_t>> got;
      for (iovec const& piece : pieces.left(1 << 20)) got.emplace_back(piece.iov_base, piece.iov_len);
      ASSERT_EQ(got, wanted);
    }
    ASSERT_EQ(given, total);
  }
}

TEST(Share, PiecesAreCutWhereTheyWerePassed) {
  std::vector<std::byte> memory(100);
  Pieces pieces;
  pieces.add(memory.data(), 40);
  pieces.add(memory.data(), 0);
  pieces.add(memory.data() + 40, 60);
  pieces.advance(45);
  ASSERT_EQ(pieces.left().size(), 1u);
  EXPECT_EQ(pieces.left()[0].iov_base, memory.data() + 45);
  EXPECT_EQ(pieces.nbytes(), 55u);
  pieces.advance(55);
  EXPECT_TRUE(pieces.done());
  EXPECT_TRUE(pieces.left().empty());
}

TEST(Share, ChunksSpreadEvenlyWithinBounds) {
  EXPECT_EQ(chunk_for(1, 4), 64u << 10);
  EXPECT_EQ(chunk_for(std::uint64_t{1} << 40, 4), 1u << 20);
  EXPECT_EQ(chunk_for(1'000'000, 4), 250'048u);  // a quarter, rounded up to 64
}

// ── landing ──────────────────────────────────────────────────────────────────────────────────────────────

TEST(Landing, AlignsAndSeparatesLargeFrames) {
  std::vector<std::uint64_t> const sizes{0, 1, 4095, 4096, 3, 100'000, 17, 0, 4097};
  Frames const frames = make_landing(sizes, default_resource());
  ASSERT_EQ(frames.size(), sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(frames[i].nbytes(), sizes[i]);
    auto const at = reinterpret_cast<std::uintptr_t>(frames[i].data());
    EXPECT_EQ(at % (sizes[i] >= 4096 ? 64 : 16), 0u) << i;
    EXPECT_EQ(frames[i].owned(), sizes[i] >= 4096) << i;
  }
}

TEST(Landing, SmallFramesShareBlocksThatGoBackWithTheLastOfThem) {
  HostResource upstream;
  PoolResource pool(upstream);
  std::vector<std::uint64_t> const sizes(100, 1000);
  Frames frames = make_landing(sizes, pool);
  std::set<std::byte const*> seen;
  for (Buffer& frame : frames) {
    std::memset(frame.writable().data(), 1, frame.nbytes());
    EXPECT_TRUE(seen.insert(frame.data()).second);
  }
  EXPECT_EQ(pool.idle_nbytes(), 0u);
  Buffer const last = std::move(frames.back());
  frames.clear();
  EXPECT_GT(pool.idle_nbytes(), 50'000u);   // the full block is back
  EXPECT_LT(pool.idle_nbytes(), 100'000u);  // the last one's is not
}

}  // namespace
}  // namespace transload
