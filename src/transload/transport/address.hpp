#pragma once
/// Where a peer listens: a host and a TCP port.

#include <cstdint>
#include <string>
#include <string_view>

namespace transload {

/// A host (a name, or an IPv4 or IPv6 address without brackets; empty: every address of this machine) and a port
/// (0: any free one).
struct Address {
  std::string host;
  std::uint16_t port = 0;

  /// Reads `host`, `host:port`, `[::1]:port`, each also behind `transload://` or `transload+tls://`.
  ///
  /// @throws Error{unsupported} with the text where it is none of these.
  [[nodiscard]] static Address parse(std::string_view text);

  /// `host:port`, with brackets where the host has a colon.
  [[nodiscard]] std::string text() const;

  friend bool operator==(Address const&, Address const&) = default;
};

}  // namespace transload
