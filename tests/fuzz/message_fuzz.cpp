// A header as the input has it, with frames of the sizes that it asks for: header, value tree, arrays, printing.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "message_input.hpp"
#include "transload/adapters/inspect.hpp"
#include "transload/adapters/value.hpp"
#include "transload/base/error.hpp"

using namespace transload;

namespace {

constexpr std::size_t most_values = 20'000;

/// Reads each value that the root reaches, a bounded number of times.
void visit(Value const& root) {
  std::vector<Value> todo{root};
  for (std::size_t n = 0; n < most_values && !todo.empty(); ++n) {
    Value const value = todo.back();
    todo.pop_back();
    auto const add = [&](Value next) {
      if (todo.size() < most_values) todo.push_back(std::move(next));
    };
    switch (value.kind()) {
      case ValueKind::list:
      case ValueKind::tuple:
      case ValueKind::set:
      case ValueKind::frozenset:
      case ValueKind::object_array:
        for (std::size_t i = 0; i < value.size() && i < 100; ++i) add(value[i]);
        break;
      case ValueKind::dict:
      case ValueKind::object:
        for (std::size_t i = 0; i < value.size() && i < 100; ++i) {
          add(value.pair(i).first);
          add(value.pair(i).second);
          (void)value.get(value.key(i));
        }
        break;
      case ValueKind::reduce:
      case ValueKind::instance:
        for (Value const& part : {value.args(), value.kwargs(), value.state(), value.list_items(), value.dict_items(), value.state_setter()}) add(part);
        (void)value.get("x");
        break;
      case ValueKind::adapted: add(value.inner()); break;
      case ValueKind::array:
      case ValueKind::memoryview: {
        NdView const array = value.array();
        // Every byte that an item may lie on is touched: the corners of the array are.
        std::byte const* first = array.bytes().data() + array.offset();
        if (nd_nbytes(array.shape(), array.dtype().itemsize) > 0) {
          std::byte const* low = first;
          std::byte const* high = first;
          for (std::size_t d = 0; d < array.ndim(); ++d) {
            auto const reach = static_cast<std::int64_t>(array.shape()[d] - 1) * array.strides()[d];
            (reach < 0 ? low : high) += reach;
          }
          volatile std::byte touched = *low;
          touched = high[array.dtype().itemsize - 1];
          (void)touched;
        }
        break;
      }
      case ValueKind::bytes:
      case ValueKind::device:
      case ValueKind::bytearray: {
        unsigned sum = 0;
        for (std::byte b : value.as<std::span<std::byte const>>()) sum += static_cast<unsigned>(b);
        volatile unsigned kept = sum;
        (void)kept;
        break;
      }
      case ValueKind::bigint: (void)value.integer_text(); break;
      case ValueKind::scalar:
        try {
          (void)value.as<double>();
        } catch (Error const&) {
        }
        break;
      default: break;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const input = std::as_bytes(std::span(data, size));
  try {
    auto message = transload::testing::message_of(input);
    if (!message) return 0;
    Value const root = Value::open(*std::move(message));
    visit(root);
    (void)inspect(root);
  } catch (Error const& error) {
    if (error.kind() == ErrorKind::failed && std::strncmp(error.what(), "the sender", 10) != 0) std::abort();  // input never makes the program itself fail
  }
  return 0;
}
