#include "transload/message/codec.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <lz4frame.h>

#include "support/bytes.hpp"
#include "support/messages.hpp"
#include "support/resources.hpp"
#include "transload/base/error.hpp"

namespace transload {
namespace {

using test::error_of;
using test::random_bytes;
using test::same;
using test::stairs;

constexpr std::uint64_t no_limit = UINT64_MAX;

Buffer compressed(std::string_view codec, std::span<std::byte const> bytes, int level = default_zstd_level) {
  Compressor compressor;
  auto stored = compressor.try_compress(codec, bytes, no_limit, default_resource(), level);
  EXPECT_TRUE(stored.has_value());
  return std::move(*stored);
}

Buffer decompressed(std::string_view codec, std::span<std::byte const> stored, std::uint64_t nbytes, Resource& resource = default_resource()) {
  Decompressor decompressor;
  return decompressor.decompress(codec, stored, nbytes, resource);
}

class Codec : public testing::TestWithParam<char const*> {};

TEST_P(Codec, GivesBackWhatWentIn) {
  Compressor compressor;
  Decompressor decompressor;
  for (std::size_t nbytes : {0, 1, 1000, 65'536, 65'537, 1'000'000, 5'000'000}) {
    for (auto const& bytes : {stairs(nbytes), random_bytes(nbytes), std::vector<std::byte>(nbytes)}) {
      auto const stored = compressor.try_compress(GetParam(), bytes, no_limit, default_resource());
      ASSERT_TRUE(stored.has_value());
      EXPECT_TRUE(same(decompressor.decompress(GetParam(), stored->bytes(), nbytes, default_resource()).bytes(), bytes)) << nbytes;
    }
  }
}

TEST_P(Codec, StopsWhereTheResultIsNotWorthIt) {
  Compressor compressor;
  auto const bytes = random_bytes(4'000'000);
  test::CountingResource counted;
  EXPECT_FALSE(compressor.try_compress(GetParam(), bytes, 1'000'000, counted).has_value());
  EXPECT_LT(counted.peak_nbytes(), 3'500'000U);  // three times what was allowed, and a block
  EXPECT_EQ(counted.held_nbytes(), 0U);
  // and the next frame is none the worse for it
  auto const fits = compressor.try_compress(GetParam(), stairs(100'000), 50'000, counted);
  ASSERT_TRUE(fits.has_value());
  EXPECT_TRUE(same(decompressed(GetParam(), fits->bytes(), 100'000).bytes(), stairs(100'000)));
}

TEST_P(Codec, FitsExactlyOrNotAtAll) {
  Compressor compressor;
  auto const bytes = stairs(300'000);
  std::uint64_t const needs = compressed(GetParam(), bytes).nbytes();
  EXPECT_TRUE(compressor.try_compress(GetParam(), bytes, needs, default_resource()).has_value());
  EXPECT_FALSE(compressor.try_compress(GetParam(), bytes, needs - 1, default_resource()).has_value());
}

TEST_P(Codec, TakesMemoryByWhatComesOutNotByWhatGoesIn) {
  Compressor compressor;
  std::vector<std::byte> const zeros(std::size_t{64} << 20);
  test::CountingResource counted;
  auto const stored = compressor.try_compress(GetParam(), zeros, no_limit, counted);
  ASSERT_TRUE(stored.has_value());
  EXPECT_LT(counted.peak_nbytes(), 3 * stored->nbytes() + (std::size_t{1} << 20));
  EXPECT_LE(counted.held_nbytes(), stored->nbytes() + stored->nbytes() / 4);
}

TEST_P(Codec, RefusesAnotherLengthThanTheLayoutSaysBeforeItTakesMemory) {
  Buffer const stored = compressed(GetParam(), random_bytes(1000));
  for (std::uint64_t nbytes : {std::uint64_t{0}, std::uint64_t{999}, std::uint64_t{1001}, std::uint64_t{1} << 32, std::uint64_t{1} << 60}) {
    test::CountingResource counted;
    error_of([&] { (void)decompressed(GetParam(), stored.bytes(), nbytes, counted); });
    EXPECT_EQ(counted.peak_nbytes(), 0U) << nbytes;
  }
}

TEST_P(Codec, RefusesCutAndTrailingBytesBeforeItTakesMemory) {
  test::CountingResource counted;
  Buffer const stored = compressed(GetParam(), stairs(300));
  for (std::size_t n = 0; n < stored.nbytes(); ++n) {
    EXPECT_NE(error_of([&] { (void)decompressed(GetParam(), test::tight_copy(stored.bytes().first(n)).bytes(), 300, counted); }).find("byte"), std::string::npos);
  }
  std::vector<std::byte> longer(stored.bytes().begin(), stored.bytes().end());
  longer.push_back(std::byte{0});
  error_of([&] { (void)decompressed(GetParam(), longer, 300, counted); });
  EXPECT_EQ(counted.peak_nbytes(), 0U);
}

TEST_P(Codec, AnyFlippedBitIsAnErrorOrOtherBytes) {
  for (auto const& bytes : {stairs(3000), random_bytes(300)}) {
    Buffer const stored = compressed(GetParam(), bytes);
    for (std::size_t at = 0; at < stored.nbytes(); ++at) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        std::vector<std::byte> damaged(stored.bytes().begin(), stored.bytes().end());
        damaged[at] ^= std::byte{1} << bit;
        try {
          EXPECT_EQ(decompressed(GetParam(), test::tight_copy(damaged).bytes(), bytes.size()).nbytes(), bytes.size());
        } catch (Error const& error) {
          EXPECT_EQ(error.kind(), ErrorKind::malformed) << error.what();
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, Codec, testing::Values("lz4", "zstd"));

TEST(Codecs, AnUnknownNameIsInTheError) {
  EXPECT_NE(error_of([] { (void)decompressed("brotli", {}, 1); }, ErrorKind::unsupported).find("brotli"), std::string::npos);
  EXPECT_NE(error_of([] { (void)compressed("brotli", {}); }, ErrorKind::unsupported).find("brotli"), std::string::npos);
}

TEST(Codecs, AHigherLevelOfZstdIsSmallerAndAnUnknownOneIsRefused) {
  auto bytes = stairs(500'000);
  auto const noise = random_bytes(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); i += 11) bytes[i] = noise[i] & std::byte{0x0f};
  EXPECT_LT(compressed("zstd", bytes, 15).nbytes(), compressed("zstd", bytes, 1).nbytes());
  EXPECT_TRUE(same(decompressed("zstd", compressed("zstd", bytes, -5).bytes(), bytes.size()).bytes(), bytes));
  EXPECT_NE(error_of([&] { (void)compressed("zstd", bytes, 99); }, ErrorKind::unsupported).find("99"), std::string::npos);
}

// ── LZ4's own library on the other side ─────────────────────────────────────────────────────────────────────────

std::vector<std::byte> lz4f_compressed(std::span<std::byte const> bytes, LZ4F_preferences_t const& preferences) {
  std::vector<std::byte> out(LZ4F_compressFrameBound(bytes.size(), &preferences));
  std::size_t const n = LZ4F_compressFrame(out.data(), out.size(), bytes.data(), bytes.size(), &preferences);
  EXPECT_FALSE(LZ4F_isError(n)) << LZ4F_getErrorName(n);
  out.resize(n);
  return out;
}

TEST(Lz4, ReadsWhateverTheLibraryWrites) {
  auto bytes = stairs(700'000);
  auto const noise = random_bytes(200'000);
  std::copy(noise.begin(), noise.end(), bytes.begin() + 250'000);  // raw blocks among the others
  for (int size : {4, 5, 6, 7}) {
    for (int bits = 0; bits < 16; ++bits) {
      LZ4F_preferences_t preferences{};
      preferences.frameInfo.blockSizeID = static_cast<LZ4F_blockSizeID_t>(size);
      preferences.frameInfo.blockMode = (bits & 1) != 0 ? LZ4F_blockIndependent : LZ4F_blockLinked;
      preferences.frameInfo.contentChecksumFlag = (bits & 2) != 0 ? LZ4F_contentChecksumEnabled : LZ4F_noContentChecksum;
      preferences.frameInfo.blockChecksumFlag = (bits & 4) != 0 ? LZ4F_blockChecksumEnabled : LZ4F_noBlockChecksum;
      preferences.frameInfo.contentSize = (bits & 8) != 0 ? bytes.size() : 0;
      auto stored = lz4f_compressed(bytes, preferences);
      ASSERT_TRUE(same(decompressed("lz4", stored, bytes.size()).bytes(), bytes)) << size << " " << bits;
      if ((bits & 6) != 0) {
        stored[stored.size() / 2] ^= std::byte{1};
        EXPECT_NE(error_of([&] { (void)decompressed("lz4", stored, bytes.size()); }).find("lz4, byte"), std::string::npos);
      }
    }
  }
}

TEST(Lz4, TheLibraryReadsWhatIsWritten) {
  auto const bytes = stairs(700'000);
  Buffer const stored = compressed("lz4", bytes);
  LZ4F_dctx* context = nullptr;
  ASSERT_FALSE(LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)));
  std::vector<std::byte> out(bytes.size() + 1);
  std::size_t written = 0;
  std::size_t hint = 1;
  for (std::size_t read = 0; hint != 0 && read < stored.nbytes();) {
    std::size_t room = out.size() - written;
    std::size_t in = stored.nbytes() - read;
    hint = LZ4F_decompress(context, out.data() + written, &room, stored.data() + read, &in, nullptr);
    ASSERT_FALSE(LZ4F_isError(hint)) << LZ4F_getErrorName(hint);
    written += room;
    read += in;
  }
  LZ4F_freeDecompressionContext(context);
  EXPECT_EQ(hint, 0U);
  EXPECT_TRUE(same(std::span<std::byte const>(out).first(written), bytes));
}

TEST(Lz4, AFrameThatNeedsADictionaryIsRefused) {
  LZ4F_preferences_t preferences{};
  preferences.frameInfo.dictID = 7;
  auto const stored = lz4f_compressed(stairs(1000), preferences);
  EXPECT_NE(error_of([&] { (void)decompressed("lz4", stored, 1000); }).find("dictionary"), std::string::npos);
}

TEST(Zstd, SeveralFramesAreReadOneBehindTheOther) {
  auto const first = stairs(100'000);
  auto const second = random_bytes(5000);
  std::vector<std::byte> stored;
  std::vector<std::byte> bytes;
  for (auto const& part : {first, second}) {
    Buffer const packed = compressed("zstd", part);
    stored.insert(stored.end(), packed.bytes().begin(), packed.bytes().end());
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  EXPECT_TRUE(same(decompressed("zstd", stored, bytes.size()).bytes(), bytes));
  EXPECT_NE(error_of([&] { (void)decompressed("zstd", stored, bytes.size() + 1); }).find("zstd, byte"), std::string::npos);
}

}  // namespace
}  // namespace transload
