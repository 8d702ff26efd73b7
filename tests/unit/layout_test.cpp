#include "transload/message/layout.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "transload/base/error.hpp"

namespace transload {
namespace {

constexpr std::uint64_t KiB = 1024;

std::vector<PayloadSize> sizes(std::size_t n, std::uint64_t nbytes) { return std::vector<PayloadSize>(n, PayloadSize{.nbytes = nbytes}); }

TEST(DefaultLimits, PackUpTo64KiBInAMessageOfFewFrames) {
  EXPECT_EQ(default_limits(sizes(159, 300 * KiB)).pack_limit, 64 * KiB);
  EXPECT_EQ(default_limits({}).pack_limit, 64 * KiB);
}

TEST(DefaultLimits, KeepAForestOfTwoArraysATreeTo160Frames) {
  // 100 trees: nodes above and values a little above 64 KiB were 200 frames.
  auto forest = sizes(100, 380 * KiB);
  for (int i = 0; i < 100; ++i) forest.push_back({.nbytes = static_cast<std::uint64_t>(80 + i) * KiB});
  LayoutLimits const limits = default_limits(forest);
  EXPECT_LE(limits.pack_limit, 256 * KiB);
  EXPECT_EQ(Layout::plan(forest, limits).frame_nbytes.size(), 160U);
}

TEST(DefaultLimits, DoNotCopyLargePayloadsHoweverMany) { EXPECT_EQ(default_limits(sizes(1000, 1024 * KiB)).pack_limit, 256 * KiB); }

TEST(DefaultLimits, DoNotCountWindows) {
  auto payloads = sizes(1, 1024 * KiB);
  for (int i = 0; i < 300; ++i) payloads.push_back({.nbytes = 100 * KiB, .window_of = 0});
  EXPECT_EQ(default_limits(payloads).pack_limit, 64 * KiB);
}

TEST(PayloadAlign, IsThatOfTheItemsBelow4KiBAnd64Above) {
  EXPECT_EQ(payload_align(0), 1U);
  EXPECT_EQ(payload_align(3), 1U);
  EXPECT_EQ(payload_align(12), 4U);
  EXPECT_EQ(payload_align(4080), 16U);
  EXPECT_EQ(payload_align(4097), 64U);
}

TEST(Layout, PacksInOrderWithEachPayloadAligned) {
  std::vector<PayloadSize> const payloads{{.nbytes = 3}, {.nbytes = 8}, {.nbytes = 0}, {.nbytes = 5000}, {.nbytes = 70 * KiB}, {.nbytes = 1}};
  Layout const layout = Layout::plan(payloads, {});
  EXPECT_EQ(layout.frame_nbytes, (std::vector<std::uint64_t>{64 + 5000 + 1, 70 * KiB}));
  EXPECT_EQ(layout.places[1].offset, 8U);
  EXPECT_EQ(layout.places[2].nframes, 0U);
  EXPECT_EQ(layout.places[3].offset, 64U);
  EXPECT_EQ(layout.places[4].frame, 1U);
  EXPECT_EQ(layout.places[5].offset, 5064U);
}

TEST(Layout, SplitsIntoPiecesOfTheLimitAndARest) {
  std::vector<PayloadSize> const payloads{{.nbytes = 250}};
  Layout const layout = Layout::plan(payloads, {.pack_limit = 10, .split_limit = 100});
  EXPECT_FALSE(layout.has_pack);
  EXPECT_EQ(layout.frame_nbytes, (std::vector<std::uint64_t>{100, 100, 50}));
  EXPECT_EQ(layout.places[0].nframes, 3U);
}

TEST(Layout, PayloadsOfAGpuLieBehindTheOthersInPacksOfBoundedSize) {
  std::vector<PayloadSize> payloads{{.nbytes = 100, .device = true}, {.nbytes = 8}, {.nbytes = 70 * KiB, .device = true}, {.nbytes = 80 * KiB}};
  for (int i = 0; i < 600; ++i) payloads.push_back({.nbytes = 64 * KiB, .device = true});
  payloads.push_back({.nbytes = 50, .window_of = 2, .window_offset = 100, .device = true});
  Layout const layout = Layout::plan(payloads, {});
  ASSERT_EQ(layout.device_frames, 2U);
  ASSERT_EQ(layout.ndevice_packs, 3U);
  EXPECT_EQ(layout.frame_nbytes.size(), 2U + 3U + 1U);
  EXPECT_EQ(layout.frame_nbytes[0], 8U);
  EXPECT_EQ(layout.frame_nbytes[1], 80 * KiB);
  EXPECT_EQ(layout.frame_nbytes[5], 70 * KiB);
  EXPECT_EQ(layout.places[0].frame, 2U);
  EXPECT_EQ(layout.places[4].offset, 128U);
  EXPECT_EQ(layout.places.back().frame, 5U);
  EXPECT_EQ(layout.places.back().offset, 100U);
  std::uint64_t inside = 0;
  for (std::size_t p = 0; p < payloads.size(); ++p) {
    Place const& place = layout.places[p];
    EXPECT_LE(place.offset + place.nbytes, layout.frame_nbytes[place.frame]) << p;
    EXPECT_EQ(place.frame >= layout.device_frames, payloads[p].device) << p;
    if (place.frame >= 2 && place.frame < 5) inside += place.nbytes;
  }
  EXPECT_EQ(inside, 100 + 600 * 64 * KiB);
  for (std::size_t f = 2; f < 5; ++f) EXPECT_LE(layout.frame_nbytes[f], device_pack_nbytes);
}

TEST(Layout, AWindowHasTheKindOfItsPayload) {
  std::vector<PayloadSize> const payloads{{.nbytes = 10, .device = true}, {.nbytes = 6, .window_of = 0}};
  EXPECT_THROW((void)Layout::plan(payloads, {}), Error);
  EXPECT_THROW((void)Layout::plan(std::vector<PayloadSize>(40, {.nbytes = 1000 * KiB, .device = true}), {}, 30), Error);
}

TEST(Layout, RefusesWindowsThatPassTheirPayloadAndWindowsOfWindows) {
  std::vector<PayloadSize> const past{{.nbytes = 10}, {.nbytes = 6, .window_of = 0, .window_offset = 5}};
  EXPECT_THROW((void)Layout::plan(past, {}), Error);
  std::vector<PayloadSize> const chained{{.nbytes = 10}, {.nbytes = 6, .window_of = 0}, {.nbytes = 2, .window_of = 1}};
  EXPECT_THROW((void)Layout::plan(chained, {}), Error);
  std::vector<PayloadSize> const far{{.nbytes = 10}, {.nbytes = 1, .window_of = 7}};
  EXPECT_THROW((void)Layout::plan(far, {}), Error);
}

TEST(MergeOverlaps, MakesWindowsOfTheUnionWhereNoPayloadSpansIt) {
  std::byte memory[100];
  std::vector<std::span<std::byte const>> payloads{{memory, 60}, {memory + 40, 60}, {memory + 60, 0}};
  std::vector<PayloadSize> merged{{.nbytes = 60}, {.nbytes = 60}, {.nbytes = 0}};
  merge_overlaps(payloads, merged);
  ASSERT_EQ(merged.size(), 4U);
  EXPECT_EQ(merged[3].nbytes, 100U);
  EXPECT_EQ(merged[0], (PayloadSize{.nbytes = 60, .window_of = 3, .window_offset = 0}));
  EXPECT_EQ(merged[1], (PayloadSize{.nbytes = 60, .window_of = 3, .window_offset = 40}));
  EXPECT_EQ(merged[2].window_of, -1);
}

TEST(MergeOverlaps, LeavesNeighboursAlone) {
  std::byte memory[100];
  std::vector<std::span<std::byte const>> payloads{{memory + 50, 50}, {memory, 50}};
  std::vector<PayloadSize> merged{{.nbytes = 50}, {.nbytes = 50}};
  merge_overlaps(payloads, merged);
  EXPECT_EQ(merged, (std::vector<PayloadSize>{{.nbytes = 50}, {.nbytes = 50}}));
}

}  // namespace
}  // namespace transload
