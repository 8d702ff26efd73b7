// A message read into C++ objects: the root, and each value near it, as each type that decode.hpp reads. What was read can be
// written and read again, to the same bytes.
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "message_input.hpp"
#include "transload/adapters/decode.hpp"
#include "transload/base/error.hpp"

using namespace transload;

namespace {

enum class Colour : std::uint8_t { red, green };

struct Leaf {
  std::int8_t small;
  std::optional<std::uint64_t> big;
  double real;
  std::optional<std::string> text;
};

struct Branch {
  std::string name;
  Leaf leaf;
  std::vector<Branch> branches;
  std::unique_ptr<Branch> next;
};

struct Wide {
  bool flag;
  Colour colour;
  std::complex<double> z;
  std::vector<std::byte> bytes;
  std::vector<float> floats;
  std::vector<std::string> texts;
  std::map<std::string, std::vector<int>> table;
  std::array<std::uint16_t, 3> three;
  std::pair<int, std::string> pair;
  std::optional<NdView> array;
};

template <class T>
std::vector<std::byte> written(T const& object) {
  Encoder encoder;
  encode(encoder, object);
  Message const message = encoder.finish();
  std::vector<std::byte> bytes(message.header.bytes().begin(), message.header.bytes().end());
  for (Buffer const& frame : message.frames) bytes.insert(bytes.end(), frame.bytes().begin(), frame.bytes().end());
  return bytes;
}

/// What is thrown away after it was read.
template <class T>
void look(Value const& value) {
  try {
    (void)decode<T>(value);
  } catch (Error const&) {
  }
}

template <class T>
void trip(Value const& value) {
  std::optional<T> object;
  try {
    object = decode<T>(value);
  } catch (Error const&) {
    return;
  }
  Encoder encoder;
  std::vector<std::byte> first;
  try {
    encode(encoder, *object);
    first = written(*object);
  } catch (Error const& error) {
    if (error.kind() != ErrorKind::unsupported) throw;  // a str on the wire is UTF-8, and an array of S holds any bytes
    return;
  }
  T const again = decode<T>(Value::open(encoder.finish()));
  if (written(again) != first) std::abort();
}

void read_as_each(Value const& value) {
  look<bool>(value);
  look<std::int8_t>(value);
  look<std::uint64_t>(value);
  look<float>(value);
  look<std::complex<double>>(value);
  look<Colour>(value);
  look<std::string_view>(value);
  look<std::span<std::byte const>>(value);
  look<NdSpan<float>>(value);
  look<NdSpan<std::int64_t>>(value);
  look<std::vector<NdView>>(value);
  look<std::vector<bool>>(value);
  look<std::set<std::string>>(value);
  look<std::unordered_map<std::string, Value>>(value);
  look<std::array<double, 4>>(value);
  look<std::tuple<int, std::optional<double>, std::vector<Value>>>(value);
  trip<std::vector<std::int32_t>>(value);
  trip<std::vector<double>>(value);
  trip<std::deque<std::string>>(value);
  trip<std::list<std::vector<std::uint8_t>>>(value);
  trip<std::map<std::int64_t, std::string>>(value);
  trip<Leaf>(value);
  trip<Branch>(value);
  look<Wide>(value);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  try {
    auto message = transload::testing::message_of(std::as_bytes(std::span(data, size)));
    if (!message) return 0;
    Value const root = Value::open(*std::move(message));
    read_as_each(root);
    bool const has_elements = root.kind() == ValueKind::list || root.kind() == ValueKind::tuple;
    for (std::size_t i = 0; has_elements && i < root.size() && i < 20; ++i) read_as_each(root[i]);
  } catch (Error const& error) {
    if (error.kind() != ErrorKind::malformed && error.kind() != ErrorKind::unsupported && error.kind() != ErrorKind::exhausted) std::abort();
  }
  return 0;
}
