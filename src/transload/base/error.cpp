#include "transload/base/error.hpp"

namespace transload {

std::string_view name(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::unsupported: return "unsupported";
    case ErrorKind::malformed: return "malformed";
    case ErrorKind::exhausted: return "exhausted";
    case ErrorKind::disconnected: return "disconnected";
    case ErrorKind::failed: return "failed";
  }
  return "failed";
}

void raise(ErrorKind kind, std::string const& message) { throw Error(kind, message); }

}  // namespace transload
