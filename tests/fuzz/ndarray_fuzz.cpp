// A dtype and a view: the input is msgpack `[dtype, shape, strides | nil, offset]` and then the array's bytes. What is accepted
// has every item inside its bytes, and its dtype survives a second trip.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transload/adapters/ndarray.hpp"
#include "transload/base/error.hpp"
#include "transload/base/limits.hpp"

using namespace transload;

namespace {

constexpr std::size_t most_items = 5000;

template <class T>
void read_as(NdView const& array) {
  try {
    NdSpan<T> const span = array.as<T>();
    if (array.size() > most_items) {
      (void)span.to_vector();
      return;
    }
    std::size_t n = 0;
    span.for_each([&](T) { ++n; });
    if (n != span.size() || span.to_vector().size() != n) std::abort();
    if (n > 0) (void)span.at(std::vector<std::uint64_t>(array.ndim(), 0));
  } catch (Error const&) {
  }
}

void read_all(NdView const& array) {
  unsigned sum = 0;
  std::size_t n = 0;
  array.for_each_item([&](std::span<std::byte const> item) {
    for (std::byte const b : item.first(std::min<std::size_t>(item.size(), 4096))) sum += static_cast<unsigned>(b);
    if (!item.empty()) sum += static_cast<unsigned>(item.back());
    try {
      (void)text_of(array.dtype(), item.first(std::min<std::size_t>(item.size(), 4096) / 4 * 4));
    } catch (Error const&) {
    }
    return ++n < most_items;
  });
  volatile unsigned kept = sum;
  (void)kept;
  if (n != std::min<std::uint64_t>(array.size(), most_items)) std::abort();
  read_as<bool>(array);
  read_as<std::int64_t>(array);
  read_as<std::uint16_t>(array);
  read_as<double>(array);
  read_as<std::array<std::uint8_t, 16>>(array);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const input = std::as_bytes(std::span(data, size));
  try {
    msgpack::Reader reader(input);
    if (reader.array("input") != 4) return 0;
    auto const dtype = std::make_shared<DType const>(DType::parse(reader, true));
    msgpack::Packer packed;
    dtype->pack(packed);
    msgpack::Reader again(packed.bytes());
    if (DType::parse(again, true).text() != dtype->text()) std::abort();

    std::vector<std::uint64_t> shape(reader.array("shape"));
    for (std::uint64_t& n : shape) n = reader.count("shape", limits::payload_nbytes);
    std::vector<std::int64_t> strides;
    bool const strided = reader.next_is_array();
    if (strided) {
      strides.resize(reader.array("strides"));
      for (std::int64_t& step : strides) step = reader.integer("strides");
    } else {
      reader.skip();
    }
    std::uint64_t const offset = reader.count("offset", limits::payload_nbytes);
    auto const rest = input.subspan(reader.offset());
    auto const bytes = std::make_shared<std::vector<std::byte>>(rest.begin(), rest.end());
    bytes->shrink_to_fit();
    NdView const array = strided ? NdView::strided(dtype, *bytes, shape, strides, offset, bytes) : NdView(dtype, *bytes, shape, (offset & 1) != 0, bytes);
    (void)array.c_contiguous();
    (void)array.f_contiguous();
    read_all(array);
  } catch (Error const& error) {
    if (error.kind() != ErrorKind::malformed) std::abort();
  }
  return 0;
}
