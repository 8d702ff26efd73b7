#include "arrow.hpp"

#include "transload/base/error.hpp"

namespace transload::py {

void encode_arrow(HeaderWriter&, Outgoing&, PyObject*, std::string_view kind, bool) {
  throw Error(ErrorKind::unsupported, cat("Arrow ", kind));
}

Ref decode_arrow(msgpack::Reader& reader, std::size_t, Header const&, Incoming&) { reader.fail_here("ARROW"); }

}  // namespace transload::py
