#include "transload/message/codec.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <lz4.h>
#include <lz4frame.h>
#include <xxhash.h>
#include <zstd.h>

#include "transload/base/error.hpp"

namespace transload {

namespace {

[[noreturn]] void unknown(std::string_view codec) {
  raise(ErrorKind::unsupported, cat("codec ", codec, " is not known here; lz4 and zstd are"));
}

[[noreturn]] void bad(std::string_view codec, std::uint64_t offset, std::string_view why) {
  raise(ErrorKind::malformed, cat(codec, ", byte ", offset, ": ", why));
}

// An LZ4 sequence extends a match by 255 a byte; a Zstandard RLE block makes 128 KiB of 4 bytes.
constexpr std::uint64_t lz4_ratio = 255;
constexpr std::uint64_t zstd_ratio = 32768;

// ── LZ4 frames ──────────────────────────────────────────────────────────────────────────────────────────────────
// They are read here and not by LZ4F, which keeps up to 8 MiB of blocks beside the output and does not say where it failed.

constexpr std::uint32_t lz4_magic = 0x184d2204;
constexpr std::uint32_t lz4_raw_block = 0x80000000;
constexpr std::uint64_t lz4_window = std::uint64_t{64} << 10;

class Lz4Frame {
 public:
  /// Walks over heads and lengths; nothing is decoded.
  Lz4Frame(std::span<std::byte const> stored, std::uint64_t nbytes) : stored_(stored) {
    if (number<std::uint32_t>("the magic number") != lz4_magic) bad("lz4", 0, "the magic number of an LZ4 frame is not there");
    descriptor(nbytes);
    first_block_ = at_;
    std::uint64_t most = 0;  // that the blocks can give
    while (auto const block = next_block()) {
      if (block_checksum_) {
        std::uint64_t const at = at_;
        auto const wanted = XXH32(stored_.data() + block->offset, block->nbytes, 0);
        if (number<std::uint32_t>("a block's checksum") != wanted) bad("lz4", at, "the block is not that of its checksum");
      }
      most += block->raw ? block->nbytes : std::min(block_nbytes_, block->nbytes * lz4_ratio);
    }
    if (content_checksum_) content_sum_ = number<std::uint32_t>("the content's checksum");
    if (at_ != stored.size()) bad("lz4", at_, cat(stored.size() - at_, " bytes behind its end"));
    if (most < nbytes) bad("lz4", 0, cat("its blocks hold at most ", most, " bytes, the header needs ", nbytes));
  }

  void decode(std::span<std::byte> out) {
    std::uint64_t written = 0;
    at_ = first_block_;
    while (auto const found = next_block()) {
      Block const& block = *found;
      if (block_checksum_) take(sizeof(std::uint32_t), "a block's checksum");  // again: somebody may write while this reads
      std::byte const* const from = stored_.data() + block.offset;
      std::uint64_t const room = out.size() - written;
      if (block.raw) {
        if (block.nbytes > room) bad("lz4", block.offset, cat("more than ", out.size(), " bytes"));
        if (block.nbytes > 0) std::memcpy(out.data() + written, from, block.nbytes);
        written += block.nbytes;
        continue;
      }
      // Where all bytes are there already, a block may still give none.
      std::byte nowhere{};
      std::byte* const to = room > 0 ? out.data() + written : &nowhere;
      std::uint64_t const before = linked_ ? std::min(written, lz4_window) : 0;
      std::byte const* const window = before > 0 ? out.data() + written - before : nullptr;
      int const n = LZ4_decompress_safe_usingDict(chars(from), chars(to), static_cast<int>(block.nbytes),
                                                  static_cast<int>(std::clamp<std::uint64_t>(room, 1, block_nbytes_)), chars(window), static_cast<int>(before));
      if (n < 0 || static_cast<std::uint64_t>(n) > room) {
        bad("lz4", block.offset, room < block_nbytes_ ? cat("the block is damaged, or gives more than ", out.size(), " bytes") : "the block is damaged");
      }
      written += static_cast<std::uint64_t>(n);
    }
    if (written != out.size()) bad("lz4", stored_.size(), cat(written, " bytes, the header needs ", out.size()));
    if (content_checksum_ && XXH32(out.data(), out.size(), 0) != content_sum_) {
      bad("lz4", stored_.size() - sizeof(content_sum_), "the bytes are not those of the content's checksum");
    }
  }

 private:
  static char const* chars(std::byte const* bytes) noexcept { return reinterpret_cast<char const*>(bytes); }
  static char* chars(std::byte* bytes) noexcept { return reinterpret_cast<char*>(bytes); }

  std::byte const* take(std::uint64_t n, std::string_view what) {
    if (stored_.size() - at_ < n) bad("lz4", stored_.size(), cat("ends inside ", what));
    std::byte const* const bytes = stored_.data() + at_;
    at_ += n;
    return bytes;
  }

  template <class T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what), sizeof(T));
    return value;
  }

  struct Block {
    std::uint64_t offset;  // of its bytes
    std::uint32_t nbytes;
    bool raw;
  };

  /// The block at `at_`, or nothing at the end mark.
  std::optional<Block> next_block() {
    std::uint64_t const at = at_;
    auto const word = number<std::uint32_t>("a block's length");
    if (word == 0) return std::nullopt;
    Block const block{.offset = at_, .nbytes = word & ~lz4_raw_block, .raw = (word & lz4_raw_block) != 0};
    if (block.nbytes > block_nbytes_) bad("lz4", at, cat("a block of ", block.nbytes, " bytes, the frame's have at most ", block_nbytes_));
    take(block.nbytes, "a block");
    return block;
  }

  void descriptor(std::uint64_t nbytes) {
    std::uint64_t const begin = at_;
    auto const flags = number<std::uint8_t>("the descriptor");
    auto const sizes = number<std::uint8_t>("the descriptor");
    if (flags >> 6 != 1) bad("lz4", begin, cat("version ", flags >> 6, ", 1 is known"));
    if ((flags & 0x02) != 0 || (sizes & 0x8f) != 0) bad("lz4", begin, "a reserved bit is set");
    if ((flags & 0x01) != 0) bad("lz4", begin, "it needs a dictionary");
    int const size = sizes >> 4;
    if (size < 4) bad("lz4", begin + 1, cat("block size ", size, ", 4 to 7 are known"));
    block_nbytes_ = std::uint64_t{1} << (8 + 2 * size);
    linked_ = (flags & 0x20) == 0;
    block_checksum_ = (flags & 0x10) != 0;
    content_checksum_ = (flags & 0x04) != 0;
    if ((flags & 0x08) != 0) {
      std::uint64_t const at = at_;
      auto const content = number<std::uint64_t>("the content's size");
      if (content != nbytes) bad("lz4", at, cat("content size ", content, ", the header needs ", nbytes));
    }
    std::uint64_t const at = at_;
    auto const wanted = static_cast<std::uint8_t>(XXH32(stored_.data() + begin, at - begin, 0) >> 8);
    if (number<std::uint8_t>("the descriptor's checksum") != wanted) bad("lz4", at, "the descriptor is not that of its checksum");
  }

  std::span<std::byte const> stored_;
  std::uint64_t at_ = 0;
  std::uint64_t first_block_ = 0;
  std::uint64_t block_nbytes_ = 0;
  std::uint32_t content_sum_ = 0;
  bool linked_ = false;
  bool block_checksum_ = false;
  bool content_checksum_ = false;
};

// ── Zstandard frames ────────────────────────────────────────────────────────────────────────────────────────────

/// Bytes of the frame that `rest` begins with; `offset` is where that is, for the error.
std::size_t zstd_frame_nbytes(std::span<std::byte const> rest, std::uint64_t offset) {
  std::size_t const n = ZSTD_findFrameCompressedSize(rest.data(), rest.size());
  if (ZSTD_isError(n)) bad("zstd", offset, ZSTD_getErrorName(n));
  return n;
}

/// Walks over the frames; nothing is decoded. Sizes that they tell are compared.
void check_zstd(std::span<std::byte const> stored, std::uint64_t nbytes) {
  std::uint64_t told = 0;
  bool all_told = true;
  for (std::uint64_t at = 0; at < stored.size();) {
    auto const rest = stored.subspan(at);
    std::size_t const n = zstd_frame_nbytes(rest, at);
    auto const content = ZSTD_getFrameContentSize(rest.data(), rest.size());
    if (content == ZSTD_CONTENTSIZE_UNKNOWN) {
      all_told = false;
    } else if (content == ZSTD_CONTENTSIZE_ERROR || content > nbytes - told) {
      bad("zstd", at, cat("content size ", content, ", the header needs ", nbytes - told));
    } else {
      told += content;
    }
    at += n;
  }
  if (all_told && told != nbytes) bad("zstd", stored.size(), cat(told, " bytes, the header needs ", nbytes));
}

void decode_zstd(ZSTD_DCtx* context, std::span<std::byte const> stored, std::span<std::byte> out) {
  std::uint64_t written = 0;
  for (std::uint64_t at = 0; at < stored.size();) {
    auto const frame = stored.subspan(at, zstd_frame_nbytes(stored.subspan(at), at));
    std::byte nowhere{};
    std::size_t const room = out.size() - written;
    std::size_t const n = ZSTD_decompressDCtx(context, room > 0 ? out.data() + written : &nowhere, room, frame.data(), frame.size());
    if (ZSTD_isError(n)) bad("zstd", at, ZSTD_getErrorName(n));
    written += n;
    at += frame.size();
  }
  if (written != out.size()) bad("zstd", stored.size(), cat(written, " bytes, the header needs ", out.size()));
}

// ── Writing ─────────────────────────────────────────────────────────────────────────────────────────────────────

/// A block that grows with what is written into it.
class Output {
 public:
  Output(Resource& resource, std::uint64_t expected_nbytes) : resource_(resource), block_(Buffer::allocate(expected_nbytes, resource)) {}

  [[nodiscard]] std::uint64_t written() const noexcept { return written_; }
  void wrote(std::uint64_t nbytes) noexcept { written_ += nbytes; }

  /// The free rest of the block, of at least `nbytes` bytes.
  std::span<std::byte> room(std::uint64_t nbytes) {
    if (block_.nbytes() - written_ < nbytes) move_to(std::max(written_ + nbytes, written_ + written_ / 2));
    return block_.writable().subspan(written_);
  }

  /// What was written. A block that is much too large goes back.
  Buffer finish() {
    if (block_.nbytes() - written_ > block_.nbytes() / 8) move_to(written_);
    auto const used = block_.bytes().first(written_);
    return Buffer::borrow(used, std::make_shared<Buffer>(std::move(block_)));
  }

 private:
  void move_to(std::uint64_t nbytes) {
    Buffer other = Buffer::allocate(nbytes, resource_);
    if (written_ > 0) std::memcpy(other.writable().data(), block_.data(), written_);
    block_ = std::move(other);
  }

  Resource& resource_;
  Buffer block_;
  std::uint64_t written_ = 0;
};

}  // namespace

bool knows_codec(std::string_view name) noexcept { return name == "lz4" || name == "zstd"; }

void check_ratio(std::string_view codec, std::uint64_t stored_nbytes, std::uint64_t nbytes) {
  if (!knows_codec(codec)) unknown(codec);
  if (nbytes / (codec == "lz4" ? lz4_ratio : zstd_ratio) > stored_nbytes) bad(codec, 0, cat(stored_nbytes, " bytes cannot hold ", nbytes));
}

struct Compressor::Contexts {
  std::unique_ptr<LZ4F_cctx, decltype(&LZ4F_freeCompressionContext)> lz4{nullptr, &LZ4F_freeCompressionContext};
  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> zstd{nullptr, &ZSTD_freeCCtx};

  bool write_lz4(std::span<std::byte const> bytes, std::uint64_t most_nbytes, Output& out) {
    auto const checked = [](std::size_t n) {
      expects(!LZ4F_isError(n), ErrorKind::failed, [&] { return cat("lz4: ", LZ4F_getErrorName(n)); });
      return n;
    };
    if (!lz4) {
      LZ4F_cctx* context = nullptr;
      expects(!LZ4F_isError(LZ4F_createCompressionContext(&context, LZ4F_VERSION)), ErrorKind::exhausted, "lz4: no room for a context");
      lz4.reset(context);
    }
    // Blocks of 256 KiB that stand alone: as small and as quick as larger or linked ones, and no history is copied.
    constexpr std::size_t piece = std::size_t{256} << 10;
    LZ4F_preferences_t preferences{};
    preferences.frameInfo.blockSizeID = bytes.size() > (std::size_t{64} << 10) ? LZ4F_max256KB : LZ4F_max64KB;
    preferences.frameInfo.blockMode = LZ4F_blockIndependent;
    preferences.frameInfo.contentSize = bytes.size();
    preferences.autoFlush = 1;
    LZ4F_compressOptions_t stable{};
    stable.stableSrc = 1;
    auto room = out.room(LZ4F_HEADER_SIZE_MAX);
    out.wrote(checked(LZ4F_compressBegin(lz4.get(), room.data(), room.size(), &preferences)));
    for (std::size_t at = 0; at < bytes.size() && out.written() <= most_nbytes; at += piece) {
      auto const next = bytes.subspan(at, std::min(piece, bytes.size() - at));
      room = out.room(LZ4F_compressBound(next.size(), &preferences));
      out.wrote(checked(LZ4F_compressUpdate(lz4.get(), room.data(), room.size(), next.data(), next.size(), &stable)));
    }
    if (out.written() > most_nbytes) return false;
    room = out.room(LZ4F_compressBound(0, &preferences));
    out.wrote(checked(LZ4F_compressEnd(lz4.get(), room.data(), room.size(), &stable)));
    return out.written() <= most_nbytes;
  }

  bool write_zstd(std::span<std::byte const> bytes, std::uint64_t most_nbytes, int level, Output& out) {
    expects(level >= ZSTD_minCLevel() && level <= ZSTD_maxCLevel(), ErrorKind::unsupported,
            [&] { return cat("zstd level ", level, " is not in ", ZSTD_minCLevel(), " … ", ZSTD_maxCLevel()); });
    auto const checked = [](std::size_t n) {
      expects(!ZSTD_isError(n), ErrorKind::failed, [&] { return cat("zstd: ", ZSTD_getErrorName(n)); });
      return n;
    };
    if (!zstd) {
      zstd.reset(ZSTD_createCCtx());
      expects(zstd != nullptr, ErrorKind::exhausted, "zstd: no room for a context");
    }
    checked(ZSTD_CCtx_reset(zstd.get(), ZSTD_reset_session_and_parameters));
    checked(ZSTD_CCtx_setParameter(zstd.get(), ZSTD_c_compressionLevel, level));
    checked(ZSTD_CCtx_setPledgedSrcSize(zstd.get(), bytes.size()));
    ZSTD_inBuffer in{.src = bytes.data(), .size = bytes.size(), .pos = 0};
    for (std::size_t left = 1; left > 0 && out.written() <= most_nbytes;) {
      auto const room = out.room(std::uint64_t{64} << 10);
      ZSTD_outBuffer to{.dst = room.data(), .size = room.size(), .pos = 0};
      left = checked(ZSTD_compressStream2(zstd.get(), &to, &in, ZSTD_e_end));
      out.wrote(to.pos);
    }
    return out.written() <= most_nbytes;
  }
};

Compressor::Compressor() : contexts_(std::make_unique<Contexts>()) {}
Compressor::~Compressor() = default;

std::optional<Buffer> Compressor::try_compress(std::string_view codec, std::span<std::byte const> bytes, std::uint64_t most_nbytes,
                                               Resource& resource, int level, std::uint64_t expected_nbytes) {
  if (!knows_codec(codec)) unknown(codec);
  Output out(resource, std::min(expected_nbytes, most_nbytes));
  bool const fits = codec == "lz4" ? contexts_->write_lz4(bytes, most_nbytes, out) : contexts_->write_zstd(bytes, most_nbytes, level, out);
  if (!fits) return std::nullopt;
  return out.finish();
}

struct Decompressor::Contexts {
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> zstd{nullptr, &ZSTD_freeDCtx};
};

Decompressor::Decompressor() : contexts_(std::make_unique<Contexts>()) {}
Decompressor::~Decompressor() = default;

Buffer Decompressor::decompress(std::string_view codec, std::span<std::byte const> stored, std::uint64_t nbytes, Resource& resource) {
  check_ratio(codec, stored.size(), nbytes);
  if (codec == "lz4") {
    Lz4Frame frame(stored, nbytes);
    Buffer out = Buffer::allocate(nbytes, resource);
    frame.decode(out.writable());
    return out;
  }
  check_zstd(stored, nbytes);
  if (!contexts_->zstd) {
    contexts_->zstd.reset(ZSTD_createDCtx());
    expects(contexts_->zstd != nullptr, ErrorKind::exhausted, "zstd: no room for a context");
  }
  Buffer out = Buffer::allocate(nbytes, resource);
  decode_zstd(contexts_->zstd.get(), stored, out.writable());
  return out;
}

}  // namespace transload
