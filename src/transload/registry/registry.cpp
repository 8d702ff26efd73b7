#include "transload/registry/registry.hpp"

#include <mutex>

namespace transload {

std::string_view to_string(Family family) noexcept {
  switch (family) {
    case Family::cuda: return "cuda";
    case Family::host: return "host";
    case Family::pickle: return "pickle";
    case Family::error: return "error";
  }
  return "?";
}

std::optional<Family> try_family(std::string_view name) noexcept {
  for (Family family : fallback_order) {
    if (to_string(family) == name) return family;
  }
  return std::nullopt;
}

void Registry::add(Adapter adapter) {
  expects(!adapter.wire_name.empty() && adapter.wire_name.find(':') == std::string::npos, ErrorKind::unsupported,
          [&] { return cat("register: '", adapter.wire_name, "' cannot be a wire name: it is empty or has a colon"); });
  std::unique_lock const lock(mutex_);
  expects(!by_name_.contains(adapter.wire_name), ErrorKind::unsupported,
          [&] { return cat("register: the wire name ", adapter.wire_name, " is taken"); });
  adapters_.push_back(std::make_unique<Adapter>(std::move(adapter)));
  by_name_.emplace(adapters_.back()->wire_name, adapters_.back().get());
}

Adapter const* Registry::find(std::string_view wire_name) const {
  std::shared_lock const lock(mutex_);
  auto const at = by_name_.find(wire_name);
  return at == by_name_.end() ? nullptr : at->second;
}

Adapter const* Registry::find(std::type_index type, Family family) const {
  std::shared_lock const lock(mutex_);
  for (auto const& adapter : adapters_) {
    if (adapter->type == type && adapter->family == family) return adapter.get();
  }
  return nullptr;
}

Adapter const& Registry::encode(std::any const& object, Encoder& encoder, std::span<Family const> families, Decisions& decisions,
                                std::string_view place) const {
  std::string reasons;
  for (Family family : families) {
    std::string reason;
    if (Adapter const* const adapter = find(object.type(), family)) {
      try {
        adapter->encode(object, encoder);
        decisions.take(std::string(place), cat(to_string(family), ": ", adapter->wire_name), reasons);
        return *adapter;
      } catch (Error const& error) {
        if (error.kind() != ErrorKind::unsupported) throw;
        reason = error.what();
      }
    } else {
      reason = "no adapter is registered for the type";
    }
    decisions.refuse(std::string(place), std::string(to_string(family)), reason);
    reasons += cat(reasons.empty() ? "" : "; ", to_string(family), ": ", reason);
  }
  raise(ErrorKind::unsupported, cat(place, ": no family takes it (", reasons.empty() ? "none was asked" : reasons, ")"));
}

}  // namespace transload
