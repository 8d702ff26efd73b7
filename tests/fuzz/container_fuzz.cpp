// A container: from memory and from a stream, which must agree. The first byte says whether the checksums are put right
// first, without which nothing behind them would ever be reached.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "transload/adapters/inspect.hpp"
#include "transload/adapters/value.hpp"
#include "transload/base/error.hpp"
#include "transload/message/checksum.hpp"
#include "transload/message/container.hpp"

using namespace transload;

namespace {

std::uint64_t get(std::vector<std::byte> const& bytes, std::size_t at) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, 8);
  return value;
}

void put(std::vector<std::byte>& bytes, std::size_t at, std::uint64_t value) { std::memcpy(bytes.data() + at, &value, 8); }

/// Puts the checksums right, as far as the fields allow.
void seal(std::vector<std::byte>& bytes) {
  if (bytes.size() < 64) return;
  auto const all = std::span<std::byte const>(bytes);
  std::uint64_t const nframes = get(bytes, 16);
  if (nframes > (bytes.size() - 64) / 24) return;
  for (std::uint64_t i = 0; i < nframes; ++i) {
    std::uint64_t const offset = get(bytes, 64 + 24 * i);
    std::uint64_t const nbytes = get(bytes, 64 + 24 * i + 8);
    if (offset <= bytes.size() && nbytes <= bytes.size() - offset) put(bytes, 64 + 24 * i + 16, xxh3(all.subspan(offset, nbytes)));
  }
  std::uint64_t const header_nbytes = get(bytes, 24);
  if (header_nbytes <= bytes.size() - 64 - 24 * nframes) put(bytes, 32, xxh3(all.subspan(64 + 24 * nframes, header_nbytes)));
  put(bytes, 56, xxh3({all.first(56), all.subspan(64, 24 * nframes)}));
}

std::optional<Message> from_stream(std::vector<std::byte> const& bytes, bool& whole) {
  std::size_t at = 0;
  try {
    Message message = read_container(
        [&](std::span<std::byte> out) {
          expects(out.size() <= bytes.size() - at, ErrorKind::disconnected, "the stream ends");
          std::memcpy(out.data(), bytes.data() + at, out.size());
          at += out.size();
        },
        default_resource(), {.total_nbytes = 1 << 20});
    whole = at == bytes.size();
    return message;
  } catch (Error const&) {
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) return 0;
  auto const input = std::as_bytes(std::span(data + 1, size - 1));
  std::vector<std::byte> bytes(input.begin(), input.end());
  if ((data[0] & 1) != 0) seal(bytes);

  std::optional<Message> mapped;
  try {
    mapped = Container::parse(Buffer::borrow(bytes), Check::all).message();
  } catch (Error const&) {
  }
  bool whole = false;
  auto streamed = from_stream(bytes, whole);
  if (bytes.size() <= (1U << 20) && mapped.has_value() != (streamed.has_value() && whole)) std::abort();
  if (mapped && streamed) {
    if (mapped->frames.size() != streamed->frames.size()) std::abort();
    for (std::size_t i = 0; i < mapped->frames.size(); ++i) {
      auto const a = mapped->frames[i].bytes();
      auto const b = streamed->frames[i].bytes();
      if (a.size() != b.size() || (!a.empty() && std::memcmp(a.data(), b.data(), a.size()) != 0)) std::abort();
    }
  }
  try {
    if (mapped) (void)inspect(Value::open(Container::parse(Buffer::borrow(bytes))));
  } catch (Error const&) {
  }
  return 0;
}
