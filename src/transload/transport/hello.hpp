#pragma once
/// The first thing each end says: who it is and what it can do. docs/transport.md, "Hello".

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transload/transport/host.hpp"

namespace transload {

/// 8 bytes that no text protocol, TLS or Dask's tcp:// begins with.
inline constexpr std::array<std::byte, 8> hello_magic{std::byte{0x8e}, std::byte{'T'}, std::byte{'L'},  std::byte{'W'},
                                                      std::byte{0x0d}, std::byte{0x0a}, std::byte{0x1a}, std::byte{0x00}};
/// Magic and the length of what follows.
inline constexpr std::size_t hello_head_nbytes = 12;
/// The version of the transport that this library speaks.
inline constexpr unsigned transport_version = 1;

struct Hello {
  unsigned version_least = transport_version;
  unsigned version_most = transport_version;
  std::string software;  ///< informative
  std::string refused;   ///< not empty: the connection is refused for this reason, and closes
  /// Of the session: drawn by the listening end. A hello with `stream` > 0 joins the session of this token.
  Token token{};
  unsigned stream = 0;
  HostIdentity host;
  std::string local_name;  ///< abstract socket on which the listening end takes shared memory; empty: it takes none
  std::uint64_t nframes_most = 0;
  std::uint64_t message_nbytes_most = 0;
  std::uint64_t window_nbytes = 0;
  unsigned streams = 0;        ///< the most TCP streams beside the first
  unsigned local_streams = 0;  ///< the most streams through shared memory
  bool same_process = false;   ///< takes frames by reference from a peer of its process
  unsigned kinds = 0;          ///< the highest FrameKind that this end wants to be told
  bool exports = false;        ///< opens memory of a GPU that a peer on its host exports

  friend bool operator==(Hello const&, Hello const&) = default;
};

/// Magic, length and map.
[[nodiscard]] std::vector<std::byte> pack_hello(Hello const& hello);

/// The length of the map from a hello's first 12 bytes.
///
/// @throws Error{malformed} when the magic is another or the length is over the limit; the text names what it looks like.
[[nodiscard]] std::size_t hello_nbytes(std::span<std::byte const> head);

/// Whether `bytes`, the first that came, may still become a hello's head.
[[nodiscard]] bool may_be_hello(std::span<std::byte const> bytes) noexcept;

/// Reads the map. Keys that are not known are passed over; those that are missing keep their defaults, except the version.
///
/// @throws Error{malformed} with the field.
[[nodiscard]] Hello parse_hello(std::span<std::byte const> map);

/// The highest version that both speak.
///
/// @throws Error{unsupported} with both ranges where there is none.
[[nodiscard]] unsigned common_version(Hello const& mine, Hello const& theirs);

/// What a stranger's first bytes look like: "HTTP", "TLS", "Dask's tcp://", or the bytes themselves.
[[nodiscard]] std::string looks_like(std::span<std::byte const> bytes);

}  // namespace transload
