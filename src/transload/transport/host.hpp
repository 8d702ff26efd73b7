#pragma once
/// What tells whether two ends are on one host, in one network namespace, in one process.

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace transload {

/// 16 random bytes of the system.
using Token = std::array<std::byte, 16>;

/// @throws Error{failed} where the system has no random bytes to give.
[[nodiscard]] Token random_token();

/// Lower-case hexadecimal digits.
[[nodiscard]] std::string to_hex(Token const& token);

struct HostIdentity {
  std::string boot;                ///< the kernel's boot id; empty where it is not told
  std::uint64_t net_namespace = 0;  ///< abstract socket names are of a network namespace
  std::uint32_t uid = 0;
  std::uint32_t pid = 0;
  Token process{};  ///< drawn anew in each process, also after a fork

  [[nodiscard]] static HostIdentity of_this_process();

  [[nodiscard]] bool same_process(HostIdentity const& other) const noexcept { return process == other.process; }

  /// Why shared memory cannot join this process and `other`; empty: nothing speaks against trying.
  [[nodiscard]] std::string apart_from(HostIdentity const& other) const;

  friend bool operator==(HostIdentity const&, HostIdentity const&) = default;
};

/// Held while something of the process changes that must be whole in a forked child: forks wait for it.
[[nodiscard]] std::mutex& not_while_forking();

/// How often this process was forked from one that had used this library: objects of before are dead in the child.
[[nodiscard]] std::uint64_t fork_generation() noexcept;

/// Descriptors that belong to an engine: a forked child closes its copies, or the peer would not see its end go.
void keep_from_children(int descriptor);
/// To be called before the descriptor is closed.
void let_go(int descriptor);
/// How many descriptors are kept now.
[[nodiscard]] std::size_t kept_descriptors();

}  // namespace transload
