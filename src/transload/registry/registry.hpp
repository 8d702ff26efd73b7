#pragma once
/// Which adapter serves which type and which wire name, and in which order families are tried.

#include <any>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "transload/base/decisions.hpp"
#include "transload/base/error.hpp"
#include "transload/registry/trust.hpp"

namespace transload {

class Encoder;  // adapters/encode.hpp
class Value;    // adapters/value.hpp

/// Where a message's frames lie and who reads it. The order is the order of fallback.
enum class Family : std::uint8_t {
  cuda,    ///< frames stay on the device
  host,    ///< frames in host memory
  pickle,  ///< Python's pickle; a C++ program has none
  error,   ///< nobody took the object: the receiver gets the reason
};

inline constexpr std::array<Family, 4> fallback_order = {Family::cuda, Family::host, Family::pickle, Family::error};

[[nodiscard]] std::string_view to_string(Family family) noexcept;
[[nodiscard]] std::optional<Family> try_family(std::string_view name) noexcept;

/// How objects of one C++ type become a node and back. `wire_name` goes into the message; it holds no colon.
///
/// `encode` writes exactly one node; it says Error{unsupported} for an object it does not take, before it writes, and the
/// next family is tried. `decode` checks what it reads.
struct Adapter {
  std::string wire_name;
  Family family = Family::host;
  std::type_index type = typeid(void);
  std::function<void(std::any const& object, Encoder& encoder)> encode;
  std::function<std::any(Value const& node)> decode;
};

/// Adapters by wire name and by type. Built by the caller and passed in. Thread-safe; adapters are never removed, so what
/// `find` returns stays valid as long as the registry.
class Registry {
 public:
  /// @throws Error{unsupported} when the wire name is empty, has a colon, or is taken by another type.
  void add(Adapter adapter);

  /// The adapter for the wire name, or null.
  [[nodiscard]] Adapter const* find(std::string_view wire_name) const;
  /// The adapter of `type` in `family`, or null.
  [[nodiscard]] Adapter const* find(std::type_index type, Family family) const;

  /// Writes `object` by the first of `families` that takes it, and records in `decisions` each that did not and why.
  ///
  /// @throws Error{unsupported} with all the reasons when none takes it.
  Adapter const& encode(std::any const& object, Encoder& encoder, std::span<Family const> families, Decisions& decisions,
                        std::string_view place = "object") const;

 private:
  mutable std::shared_mutex mutex_;
  std::vector<std::unique_ptr<Adapter>> adapters_;
  std::unordered_map<std::string, Adapter const*, detail::TextHash, std::equal_to<>> by_name_;
};

}  // namespace transload
