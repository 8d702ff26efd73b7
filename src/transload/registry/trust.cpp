#include "transload/registry/trust.hpp"

#include <algorithm>
#include <mutex>

#include "transload/base/error.hpp"

namespace transload {

std::string_view to_string(Role role) noexcept {
  switch (role) {
    case Role::make: return "make an instance of";
    case Role::call: return "call";
    case Role::hand_on: return "hand on";
  }
  return "?";
}

void Trust::add(std::string_view name, Roles roles) {
  auto const colon = name.find(':');
  expects(colon != std::string_view::npos && colon > 0 && colon + 1 < name.size(), ErrorKind::unsupported,
          [&] { return cat("trust: ", name, " is not of the form module:qualified.name"); });
  std::unique_lock const lock(mutex_);
  names_[std::string(name)] |= roles;
}

void Trust::remove(std::string_view name) {
  std::unique_lock const lock(mutex_);
  if (auto const at = names_.find(name); at != names_.end()) names_.erase(at);
}

Roles Trust::roles(std::string_view name) const {
  std::shared_lock const lock(mutex_);
  auto const at = names_.find(name);
  return at == names_.end() ? Roles{} : at->second;
}

std::vector<std::string> Trust::names() const {
  std::vector<std::string> out;
  {
    std::shared_lock const lock(mutex_);
    out.reserve(names_.size());
    for (auto const& [name, roles] : names_) out.push_back(name);
  }
  std::sort(out.begin(), out.end());
  return out;
}

void Trust::check(std::string_view name, Role role, std::string_view where) const {
  Roles const have = roles(name);
  if (have.has(role)) return;
  std::string text = cat(where, ": ", name, " is not on the trust list");
  if (have != Roles{}) {
    text = cat(where, ": the trust list does not let a message ", to_string(role), ' ', name, ", only");
    char const* separator = " ";
    for (Role other : {Role::make, Role::call, Role::hand_on}) {
      if (!have.has(other)) continue;
      text += cat(separator, to_string(other));
      separator = ", ";
    }
    text += " it";
  }
  raise(ErrorKind::unsupported, text);
}

}  // namespace transload
