#pragma once
/// What is made once and given from hand to hand, for each device. Internal to the room.

#include <map>
#include <mutex>
#include <vector>

namespace transload::staging {

template <class T>
class Kept {
 public:
  /// Leaked: the driver is gone before static objects are.
  [[nodiscard]] static Kept& of_process() {
    static auto* const kept = new Kept;
    return *kept;
  }
  /// False: all are in use, or none was made.
  [[nodiscard]] bool take(int device, T& one) {
    std::lock_guard const lock(mutex_);
    auto& idle = idle_[device];
    if (idle.empty()) return false;
    one = idle.back();
    idle.pop_back();
    return true;
  }
  void give_back(int device, T one) noexcept {
    std::lock_guard const lock(mutex_);
    idle_[device].push_back(one);
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<T>> idle_;
};

/// How many of something each device may have at a time.
class Quota {
 public:
  explicit Quota(unsigned most) : most_(most) {}
  Quota(Quota const&) = delete;
  /// False: the device has them all.
  [[nodiscard]] bool take(int device) {
    std::lock_guard const lock(mutex_);
    unsigned& taken = taken_[device];
    if (taken >= most_) return false;
    ++taken;
    return true;
  }
  void give_back(int device) noexcept {
    std::lock_guard const lock(mutex_);
    --taken_[device];
  }

 private:
  unsigned const most_;
  std::mutex mutex_;
  std::map<int, unsigned> taken_;
};

}  // namespace transload::staging
