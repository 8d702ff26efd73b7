#pragma once
/// Limits a reader keeps before it believes a byte. docs/format.md, "Limits".

#include <cstddef>
#include <cstdint>

namespace transload::limits {

/// Nesting of nodes; deeper input is malformed, deeper objects are unsupported at the sender.
inline constexpr std::size_t depth = 10'000;
/// Levels that an object array counts for in a chain: NumPy frees it in 2 KB of stack.
inline constexpr std::size_t object_array_levels = 8;
/// Bytes of a header.
inline constexpr std::size_t header_nbytes = (std::size_t{1} << 31) - 1;
/// Entries in the tables of names, shapes and sizes, and frames of a message.
inline constexpr std::size_t table_entries = std::size_t{1} << 24;
/// Bytes of one payload.
inline constexpr std::uint64_t payload_nbytes = std::uint64_t{1} << 62;
/// Dimensions of an array (NumPy's own limit).
inline constexpr std::size_t ndim = 64;

/// Bytes of a hello, the first thing each end of a connection says (docs/transport.md).
inline constexpr std::size_t hello_nbytes = std::size_t{64} << 10;
/// Streams beside the first that a connection may have.
inline constexpr unsigned streams = 64;
/// The most that a hello tells of frames of a message (a record counts them in 32 bits), and of bytes that may be sent ungranted.
inline constexpr std::uint64_t frames_told = (std::uint64_t{1} << 32) - 1;
inline constexpr std::uint64_t window_nbytes = std::uint64_t{1} << 62;

}  // namespace transload::limits
