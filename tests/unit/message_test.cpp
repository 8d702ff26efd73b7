#include "transload/message/message.hpp"

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/bytes.hpp"
#include "transload/base/error.hpp"
#include "transload/message/checksum.hpp"

namespace transload {
namespace {

using test::random_bytes;
using test::same;

/// The message of `payloads`, with nil as its root.
Message message_of(std::vector<std::vector<std::byte>> const& payloads, LayoutLimits limits = {}) {
  HeaderWriter writer;
  for (auto const& payload : payloads) writer.add_payload(payload);
  writer.root().nil();
  return make_message(writer, limits, default_resource());
}

TEST(Message, PacksSmallPayloadsAndBorrowsLargeOnes) {
  std::vector<std::vector<std::byte>> const payloads = {random_bytes(10), random_bytes(100'000, 2), random_bytes(4096, 3), random_bytes(0), random_bytes(8, 4)};
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

TEST(Message, PayloadsOfAGpuAreTheWalksToGather) {
  auto const bytes = random_bytes(10);
  HeaderWriter writer;
  writer.add_device_payload(bytes);
  writer.root().nil();
  EXPECT_THROW((void)make_message(writer, LayoutLimits{}, default_resource()), Error);
  // Their kinds stand in the header, and come back.
  Layout layout;
  auto const header_bytes = writer.finish(LayoutLimits{}, layout);
  Header const header = Header::parse(header_bytes.bytes());
  EXPECT_EQ(header.payload_kinds, std::vector<std::uint8_t>{2});
  EXPECT_TRUE(header.sizes[0].device);
  EXPECT_EQ(header.layout.device_frames, 0U);
}

TEST(Message, TheGapsOfThePackAreZero) {
  Message const message = message_of({random_bytes(1), random_bytes(4096, 2)});
  auto const pack = message.frames[0].bytes();
  ASSERT_EQ(pack.size(), 64U + 4096U);
  for (std::size_t i = 1; i < 64; ++i) EXPECT_EQ(pack[i], std::byte{0});
}

TEST(Message, ASplitPayloadIsJoinedOnceForAllItsWindows) {
  auto const whole = random_bytes(1000);
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
  auto const whole = random_bytes(1000);
  HeaderWriter writer;
  writer.add_payload(whole);
  writer.root().nil();
  Message const message = make_message(writer, LayoutLimits{.pack_limit = 16, .split_limit = 100}, default_resource());
  Header const header = Header::parse(message.header.bytes());
  Payloads read(header, message.frames, default_resource());
  EXPECT_EQ(read[0].data(), whole.data());
}

TEST(Message, OverlappingPayloadsTravelOnce) {
  auto const whole = random_bytes(200'000);
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
  Message message = message_of({random_bytes(100'000)});
  Header const header = Header::parse(message.header.bytes());
  message.frames[0] = Buffer::borrow(message.frames[0].bytes().first(99'999));
  EXPECT_THROW(open_frames(header, message.frames, default_resource()), Error);
  message.frames.clear();
  EXPECT_THROW(open_frames(header, message.frames, default_resource()), Error);
}

TEST(Message, SharedMessagesOutliveEachOther) {
  Message second;
  {
    Message first = message_of({random_bytes(100)});
    second = first.share();
  }
  EXPECT_TRUE(same(second.frames[0].bytes(), random_bytes(100)));
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

TEST(Checksum, OfPartsIsThatOfTheWhole) {
  auto const bytes = random_bytes(1000);
  auto const all = std::span<std::byte const>(bytes);
  EXPECT_EQ(xxh3({all.first(300), all.subspan(300, 0), all.subspan(300)}), xxh3(all));
}

}  // namespace
}  // namespace transload
