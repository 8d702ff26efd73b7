#include "endpoint.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>

#include "transload/base/error.hpp"

namespace transload::transport {

Endpoint Endpoint::of(sockaddr const* address, socklen_t nbytes) noexcept {
  Endpoint endpoint;
  endpoint.nbytes = nbytes;
  std::memcpy(&endpoint.address, address, nbytes);
  return endpoint;
}

Endpoint Endpoint::local(std::string_view name) {
  sockaddr_un address{};
  expects(name.size() + 1 <= sizeof address.sun_path, ErrorKind::malformed, [&] { return cat("a local name of ", name.size(), " bytes"); });
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return of(reinterpret_cast<sockaddr const*>(&address), static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()));
}

Endpoint Endpoint::here(int descriptor) noexcept {
  Endpoint endpoint;
  endpoint.nbytes = sizeof endpoint.address;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&endpoint.address), &endpoint.nbytes) != 0) return {};
  return endpoint;
}

Endpoint Endpoint::there(int descriptor) noexcept {
  Endpoint endpoint;
  endpoint.nbytes = sizeof endpoint.address;
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&endpoint.address), &endpoint.nbytes) != 0) return {};
  return endpoint;
}

Address Endpoint::as_address() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) {
    auto const& v4 = reinterpret_cast<sockaddr_in const&>(address);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return {text, ntohs(v4.sin_port)};
  }
  if (family() == AF_INET6) {
    auto const& v6 = reinterpret_cast<sockaddr_in6 const&>(address);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      ::inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, text, sizeof text);
      return {text, ntohs(v6.sin6_port)};
    }
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    Address shown{text, ntohs(v6.sin6_port)};
    char zone[IF_NAMESIZE];
    if (v6.sin6_scope_id != 0 && ::if_indextoname(v6.sin6_scope_id, zone) != nullptr) shown.host += cat("%", zone);
    return shown;
  }
  return {};
}

}  // namespace transload::transport
