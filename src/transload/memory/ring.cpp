#include "transload/memory/ring.hpp"

#include <algorithm>

#include "staging.hpp"
#include "transload/base/error.hpp"

namespace transload {

namespace {

/// Copies of a slot: each costs a call, so many short runs are not all put into one.
constexpr std::size_t copies_most = 256;

}  // namespace

StagingRing::StagingRing(int device, bool outward)
    : outward_(outward), slots_(device == host_twin ? staging::twin_slots() : staging::slots(device)) {}

StagingRing::~StagingRing() = default;

void StagingRing::add(void* device_memory, std::size_t nbytes) {
  if (nbytes == 0) return;
  runs_.push_back({static_cast<std::byte*>(device_memory), nbytes});
  left_ += nbytes;
  uncopied_ += nbytes;
}

/// Begins to copy `nbytes` bytes between a slot and the runs that are next.
void StagingRing::copy(std::size_t slot, std::size_t nbytes) {
  std::byte* host = slots_->bytes(slot);
  uncopied_ -= nbytes;
  while (nbytes > 0) {
    Run& run = runs_.front();
    std::size_t const n = std::min(nbytes, run.nbytes);
    if (outward_) {
      slots_->copy(host, run.memory, n);
    } else {
      slots_->copy(run.memory, host, n);
    }
    host += n;
    nbytes -= n;
    run.memory += n;
    run.nbytes -= n;
    if (run.nbytes == 0) runs_.pop_front();
  }
  slots_->mark(slot);
}

void StagingRing::fetch_ahead() {
  while (end_ < first_ + nslots && uncopied_ > 0) {
    std::size_t nbytes = 0;
    for (std::size_t i = 0; i < std::min(runs_.size(), copies_most) && nbytes < slot_nbytes; ++i) nbytes += runs_[i].nbytes;
    std::size_t const slot = end_++ % nslots;
    filled_[slot] = std::min(nbytes, slot_nbytes);
    copy(slot, filled_[slot]);
  }
}

std::span<std::byte> StagingRing::next() {
  std::size_t const slot = first_ % nslots;
  if (outward_) {
    fetch_ahead();
    if (at_ == 0) slots_->wait(slot);
    return {slots_->bytes(slot) + at_, filled_[slot] - at_};
  }
  if (at_ == 0 && first_ >= nslots) slots_->wait(slot);
  return {slots_->bytes(slot) + at_, std::min(slot_nbytes, uncopied_) - at_};
}

void StagingRing::advance(std::size_t nbytes) {
  std::size_t const slot = first_ % nslots;
  at_ += nbytes;
  left_ -= nbytes;
  std::size_t const size = outward_ ? filled_[slot] : std::min(slot_nbytes, uncopied_);
  if (at_ < size) return;
  at_ = 0;
  ++first_;
  if (outward_) {
    fetch_ahead();
    return;
  }
  copy(slot, size);
  if (left_ == 0) slots_->wait(slot);  // the copies of a stream end in their order
}

}  // namespace transload
