#pragma once
/// The log of decisions: what was chosen, what was passed over, and why. Nothing slow or second-best happens silently.

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace transload {

/// One decision: at `place` (where in the object, or which peer) `choice` was taken, or refused for `reason`.
struct Decision {
  std::string place;
  std::string choice;
  std::string reason;  ///< empty: it was taken without ado
  bool taken = false;

  friend bool operator==(Decision const&, Decision const&) = default;
};

/// Keeps the latest decisions, up to a bound, and counts all of them. Thread-safe.
class Decisions {
 public:
  explicit Decisions(std::size_t most = 1000) : most_(most) {}

  void take(std::string place, std::string choice, std::string reason = {}) {
    add({std::move(place), std::move(choice), std::move(reason), true});
  }
  void refuse(std::string place, std::string choice, std::string reason) {
    add({std::move(place), std::move(choice), std::move(reason), false});
  }

  /// The decisions kept, oldest first.
  [[nodiscard]] std::vector<Decision> list() const {
    std::lock_guard const lock(mutex_);
    std::vector<Decision> out;
    out.reserve(kept_.size());
    for (std::size_t i = 0; i < kept_.size(); ++i) out.push_back(kept_[(first_ + i) % kept_.size()]);
    return out;
  }
  /// How many there were, kept or not.
  [[nodiscard]] std::size_t count() const {
    std::lock_guard const lock(mutex_);
    return count_;
  }

 private:
  void add(Decision decision) {
    std::lock_guard const lock(mutex_);
    ++count_;
    if (kept_.size() < most_) {
      kept_.push_back(std::move(decision));
    } else if (most_ > 0) {
      kept_[first_] = std::move(decision);
      first_ = (first_ + 1) % most_;
    }
  }

  mutable std::mutex mutex_;
  std::vector<Decision> kept_;  // a ring once it is full
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::size_t most_;
};

}  // namespace transload
