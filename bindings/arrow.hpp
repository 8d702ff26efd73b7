#pragma once
/// Arrow data at the border to Python: pyarrow objects (and whatever speaks its PyCapsule protocol) to and from ARROW nodes.

#include <string_view>

#include "frames.hpp"
#include "py.hpp"
#include "transload/message/header.hpp"

namespace transload::py {

/// Appends one ARROW node, op and all, for `object`. `kind` is what the adapter table says: table, batch, chunked, array or schema.
/// `marked`: the op carries the mark. Buffers are borrowed; `outgoing` keeps what they belong to.
///
/// False, with nothing written, for an extension type that nobody registered here: it would arrive as its storage.
///
/// @throws Error{unsupported} for a layout that this version does not write.
[[nodiscard]] bool encode_arrow(HeaderWriter& writer, Outgoing& outgoing, PyObject* object, std::string_view kind, bool marked);

/// Reads the `nfields` fields behind the op of an ARROW node and returns the pyarrow object of its kind.
///
/// @throws Error{malformed}.
[[nodiscard]] Ref decode_arrow(msgpack::Reader& reader, std::size_t nfields, Header const& header, Incoming& incoming);

}  // namespace transload::py
