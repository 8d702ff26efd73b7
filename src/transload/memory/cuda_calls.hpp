#pragma once
/// What every call of the CUDA runtime needs. Internal to the room: needs the toolkit.

#include <cuda_runtime_api.h>

#include "transload/base/error.hpp"

namespace transload::staging {

inline void check(cudaError_t status, char const* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // so that nobody else meets it
  expects(status != cudaErrorInitializationError, ErrorKind::unsupported, "GPUs cannot be used in a process that was forked from one that used them");
  expects(status != cudaErrorNoDevice && status != cudaErrorInsufficientDriver, ErrorKind::unsupported,
          [&] { return cat("no GPU can be used here: ", cudaGetErrorString(status)); });
  raise(status == cudaErrorMemoryAllocation ? ErrorKind::exhausted : ErrorKind::failed, cat(what, ": ", cudaGetErrorString(status)));
}

/// Makes a device current for a block.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    if (before_ == device) {
      before_ = -1;
    } else {
      check(cudaSetDevice(device), "cudaSetDevice");
    }
  }
  OnDevice(OnDevice const&) = delete;
  ~OnDevice() {
    if (before_ >= 0) (void)cudaSetDevice(before_);
  }

 private:
  int before_ = -1;
};

/// An event of a device, kept for the next one who needs it.
class Event {
 public:
  explicit Event(int device);
  Event(Event&& other) noexcept : device_(other.device_), event_(other.event_) { other.event_ = nullptr; }
  Event& operator=(Event&&) = delete;
  ~Event();

  [[nodiscard]] cudaEvent_t get() const noexcept { return event_; }
  /// Whether the work before its mark is done.
  [[nodiscard]] bool passed() const;

 private:
  int device_;
  cudaEvent_t event_ = nullptr;
};

}  // namespace transload::staging
