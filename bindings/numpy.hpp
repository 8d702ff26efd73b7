#pragma once
/// NumPy at the border: dtypes in both directions. Arrays themselves are walked in graph_encode.cpp and graph_decode.cpp
/// through the buffer protocol, so NumPy's C headers are not needed and NumPy is imported only when its first object is met.

#include <optional>

#include "py.hpp"
#include "transload/message/msgpack.hpp"

namespace transload::py {

/// NumPy's classes and functions, once its first object was met.
struct Numpy {
  PyObject *ndarray = nullptr, *generic = nullptr, *dtype = nullptr, *empty = nullptr;
  PyObject *object_dtype = nullptr;
};

/// Null until NumPy is imported by somebody; `require` imports it.
[[nodiscard]] Numpy const* numpy_if_loaded();
[[nodiscard]] Numpy const& numpy();

/// Appends the raw dtype of docs/format.md, or returns why this dtype has no raw form (objects inside, user-defined,
/// metadata); then nothing was appended.
[[nodiscard]] std::optional<std::string> pack_dtype(msgpack::Packer& out, PyObject* dtype);

/// A raw dtype as a numpy.dtype. `|O` is refused unless `objects`; nesting, counts and sizes are checked before NumPy sees them.
///
/// @throws Error{malformed}.
[[nodiscard]] Ref unpack_dtype(msgpack::Reader& reader, bool objects);

}  // namespace transload::py
