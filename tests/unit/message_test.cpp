#include "transload/message/message.hpp"

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "transload/base/error.hpp"
#include "transload/message/checksum.hpp"
#include "transload/message/codec.hpp"

namespace transload {
namespace {

std::vector<std::byte> pattern(std::size_t nbytes, unsigned seed = 1) {
  std::vector<std::byte> bytes(nbytes);
  for (std::byte& b : bytes) b = static_cast<std::byte>((seed = seed * 1664525U + 1013904223U) >> 24);
  return bytes;
}

bool same(std::span<std::byte const> a, std::span<std::byte const> b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

/// The message of `payloads`, with nil as its root.
Message message_of(std::vector<std::vector<std::byte>> const& payloads, LayoutLimits limits = {}) {
  HeaderWriter writer;
  for (auto const& payload : payloads) writer.add_payload(payload);
  writer.root().nil();
  return make_message(writer, limits, default_resource());
}

TEST(Message, PacksSmallPayloadsAndBorrowsLargeOnes) {
  std::vector<std::vector<std::byte>> const payloads = {pattern(10), pattern(100'000, 2), pattern(4096, 3), pattern(0), pattern(8, 4)};
  Message const message = message_of(payloads);
  ASSERT_EQ(message.frames.size(), 2U);
  EXPECT_TRUE(message.frames[0].owned());
  EXPECT_EQ(message.frames[1].data(), payloads[1].data());
  Header const header = Header::parse(message.header.bytes());
  Payloads read(header, message.frames, default_resource());
  ASSERT_EQ(read.size(), payloads.size());
  for (std::size_t p = 0; p < payloads.size(); ++p) EXPECT_TRUE(same(read[p], payloads[p])) << p;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read[2].data()) % 64, 0U) << "4 KiB and more lie on 64 bytes";
}

TEST(Message, TheGapsOfThePackAreZero) {
  Message const message = message_of({pattern(1), pattern(4096, 2)});
  auto const pack = message.frames[0].bytes();
  ASSERT_EQ(pack.size(), 64U + 4096U);
  for (std::size_t i = 1; i < 64; ++i) EXPECT_EQ(pack[i], std::byte{0});
}

TEST(Message, ASplitPayloadIsJoinedOnceForAllItsWindows) {
  auto const whole = pattern(1000);
  HeaderWriter writer;
  writer.add_payload(whole);
  writer.add_payload(std::span(whole).subspan(90, 20));
  writer.root().nil();
  Message message = make_message(writer, LayoutLimits{.pack_limit = 16, .split_limit = 100}, default_resource());
  ASSERT_EQ(message.frames.size(), 10U);
  // Elsewhere, so that the frames do not touch.
  for (Buffer& frame : message.frames) {
    Buffer copy = Buffer::allocate(frame.nbytes(), default_resource());
    std::memcpy(copy.writable().data(), frame.data(), frame.nbytes());
    frame = std::move(copy);
  }
  Header const header = Header::parse(message.header.bytes());
  Payloads read(header, message.frames, default_resource());
  EXPECT_TRUE(same(read[0], whole));
  EXPECT_EQ(read[1].data(), read[0].data() + 90);
  EXPECT_EQ(read[1].size(), 20U);
}

TEST(Message, ASplitPayloadWhoseFramesTouchIsNotCopied) {
  auto const whole = pattern(1000);
  HeaderWriter writer;
  writer.add_payload(whole);
  writer.root().nil();
  Message const message = make_message(writer, LayoutLimits{.pack_limit = 16, .split_limit = 100}, default_resource());
  Header const header = Header::parse(message.header.bytes());
  Payloads read(header, message.frames, default_resource());
  EXPECT_EQ(read[0].data(), whole.data());
}

TEST(Message, OverlappingPayloadsTravelOnce) {
  auto const whole = pattern(200'000);
  HeaderWriter writer;
  writer.add_payload(std::span(whole).first(150'000));
  writer.add_payload(std::span(whole).subspan(100'000));
  writer.root().nil();
  Message const message = make_message(writer, {}, default_resource());
  ASSERT_EQ(message.frames.size(), 1U);
  EXPECT_EQ(message.frames[0].nbytes(), 200'000U);
  Header const header = Header::parse(message.header.bytes());
  Payloads read(header, message.frames, default_resource());
  EXPECT_EQ(read[0].data() + 100'000, read[1].data());
}

TEST(Message, FramesThatDoNotMatchTheHeaderAreRefused) {
  Message message = message_of({pattern(100'000)});
  Header const header = Header::parse(message.header.bytes());
  message.frames[0] = Buffer::borrow(message.frames[0].bytes().first(99'999));
  EXPECT_THROW(open_frames(header, message.frames, default_resource()), Error);
  message.frames.clear();
  EXPECT_THROW(open_frames(header, message.frames, default_resource()), Error);
}

TEST(Message, SharedMessagesOutliveEachOther) {
  Message second;
  {
    Message first = message_of({pattern(100)});
    second = first.share();
  }
  EXPECT_TRUE(same(second.frames[0].bytes(), pattern(100)));
  EXPECT_EQ(Header::parse(second.header.bytes()).sizes.size(), 1U);
}

TEST(Message, AHeaderThatAsksForMoreFramesThanThereAreIsRefusedFirst) {
  HeaderWriter writer;
  writer.root().nil();
  std::vector<std::byte> const bytes(1000);
  writer.add_payload(bytes);
  Message const message = make_message(writer, LayoutLimits{.pack_limit = 0, .split_limit = 1}, default_resource());
  EXPECT_EQ(Header::parse(message.header.bytes(), 1000).layout.frame_nbytes.size(), 1000U);
  EXPECT_THROW((void)Header::parse(message.header.bytes(), 999), Error);
}

class Codec : public testing::TestWithParam<char const*> {};

TEST_P(Codec, GivesBackWhatWentIn) {
  for (std::size_t nbytes : {0, 1, 1000, 1'000'000}) {
    std::vector<std::byte> bytes(nbytes);
    for (std::size_t i = 0; i < nbytes; ++i) bytes[i] = static_cast<std::byte>(i / 100);
    Buffer const stored = compress(GetParam(), bytes, default_resource());
    EXPECT_TRUE(same(decompress(GetParam(), stored.bytes(), nbytes, default_resource()).bytes(), bytes)) << nbytes;
  }
}

TEST_P(Codec, RefusesAnotherLengthThanTheLayoutSays) {
  Buffer const stored = compress(GetParam(), pattern(1000), default_resource());
  for (std::uint64_t nbytes : {std::uint64_t{0}, std::uint64_t{999}, std::uint64_t{1001}, std::uint64_t{1} << 60}) {
    try {
      (void)decompress(GetParam(), stored.bytes(), nbytes, default_resource());
      FAIL() << nbytes;
    } catch (Error const& error) {
      EXPECT_EQ(error.kind(), ErrorKind::malformed) << error.what();
    }
  }
}

TEST_P(Codec, RefusesCutAndTrailingBytes) {
  Buffer const stored = compress(GetParam(), pattern(300), default_resource());
  for (std::size_t n = 0; n < stored.nbytes(); ++n) {
    EXPECT_THROW((void)decompress(GetParam(), stored.bytes().first(n), 300, default_resource()), Error) << n;
  }
  std::vector<std::byte> longer(stored.bytes().begin(), stored.bytes().end());
  longer.push_back(std::byte{0});
  EXPECT_THROW((void)decompress(GetParam(), longer, 300, default_resource()), Error);
}

INSTANTIATE_TEST_SUITE_P(Codecs, Codec, testing::Values("lz4", "zstd"));

TEST(CodecNames, AnUnknownOneIsNamedInTheError) {
  try {
    (void)decompress("brotli", {}, 1, default_resource());
    FAIL();
  } catch (Error const& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("brotli"), std::string::npos);
  }
}

TEST(Checksum, OfPartsIsThatOfTheWhole) {
  auto const bytes = pattern(1000);
  auto const all = std::span<std::byte const>(bytes);
  EXPECT_EQ(xxh3({all.first(300), all.subspan(300, 0), all.subspan(300)}), xxh3(all));
}

}  // namespace
}  // namespace transload
