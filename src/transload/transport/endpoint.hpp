#pragma once
/// A socket address of any family. Internal to the room.

#include <sys/socket.h>

#include <string_view>

#include "transload/transport/address.hpp"

namespace transload::transport {

struct Endpoint {
  sockaddr_storage address{};
  socklen_t nbytes = 0;

  [[nodiscard]] static Endpoint of(sockaddr const* address, socklen_t nbytes) noexcept;
  /// An abstract Unix name.
  [[nodiscard]] static Endpoint local(std::string_view name);
  /// The descriptor's own address, and its peer's.
  [[nodiscard]] static Endpoint here(int descriptor) noexcept;
  [[nodiscard]] static Endpoint there(int descriptor) noexcept;

  [[nodiscard]] int family() const noexcept { return address.ss_family; }
  [[nodiscard]] sockaddr const* get() const noexcept { return reinterpret_cast<sockaddr const*>(&address); }
  /// Host and port of an IP endpoint; an IPv4 address in IPv6 clothes is shown as IPv4.
  [[nodiscard]] Address as_address() const;
};

}  // namespace transload::transport
