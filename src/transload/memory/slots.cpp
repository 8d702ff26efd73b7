/// The slots of staging rings, and fences: what the transport needs of CUDA.
#include "slots.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "cuda_calls.hpp"
#include "kept.hpp"
#include "staging.hpp"
#include "transload/memory/ring.hpp"

namespace transload::staging {

namespace {

/// Rings of a device with pinned memory at a time; the others use ordinary memory, as two ends that wait for each other's could wait for ever.
constexpr unsigned pinned_rings_most = 32;

Quota& pinned_rings() {
  static auto* const quota = new Quota(pinned_rings_most);  // leaked, as what is kept
  return *quota;
}

std::atomic<std::size_t> pinned_kept{0};
std::atomic<std::uint64_t> unpinned{0};

/// Stream, events and memory of one ring.
struct Equipment {
  cudaStream_t stream = nullptr;
  std::array<cudaEvent_t, StagingRing::nslots> done{};
  std::byte* memory = nullptr;
  bool pinned = false;
};

constexpr std::size_t ring_nbytes = StagingRing::nslots * StagingRing::slot_nbytes;

void give_up(Equipment& equipment, int device) noexcept {
  if (equipment.pinned) pinned_rings().give_back(device);
  if (equipment.pinned && equipment.memory != nullptr) {
    (void)cudaFreeHost(equipment.memory);
    pinned_kept -= ring_nbytes;
  }
  if (!equipment.pinned) delete[] equipment.memory;
  for (cudaEvent_t const event : equipment.done) {
    if (event != nullptr) (void)cudaEventDestroy(event);
  }
  if (equipment.stream != nullptr) (void)cudaStreamDestroy(equipment.stream);
}

Equipment make(int device) {
  Equipment equipment{.pinned = pinned_rings().take(device)};
  if (!equipment.pinned) ++unpinned;
  try {
    check(cudaStreamCreateWithFlags(&equipment.stream, cudaStreamNonBlocking), "cudaStreamCreate");
    for (cudaEvent_t& event : equipment.done) check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    if (equipment.pinned) {
      check(cudaHostAlloc(reinterpret_cast<void**>(&equipment.memory), ring_nbytes, cudaHostAllocPortable), "pinned memory");
      pinned_kept += ring_nbytes;
    } else {
      equipment.memory = new std::byte[ring_nbytes];
    }
  } catch (...) {
    give_up(equipment, device);
    throw;
  }
  return equipment;
}

class CudaSlots final : public Slots {
 public:
  explicit CudaSlots(int device) : device_(device) {
    static pid_t const pid = ::getpid();
    expects(::getpid() == pid, ErrorKind::unsupported, "GPUs cannot be used in a process that was forked from one that used them");
    if (Kept<Equipment>::of_process().take(device, equipment_)) return;
    OnDevice const on(device);
    equipment_ = make(device);
  }
  ~CudaSlots() override {
    // Nothing may read or write memory that its owner believes is his.
    bool const well = cudaStreamSynchronize(equipment_.stream) == cudaSuccess && !failed_;
    if (well && equipment_.pinned) {
      Kept<Equipment>::of_process().give_back(device_, equipment_);
    } else {
      (void)cudaGetLastError();
      give_up(equipment_, device_);
    }
  }

  std::byte* bytes(std::size_t slot) noexcept override { return equipment_.memory + slot * StagingRing::slot_nbytes; }
  void copy(void* to, void const* from, std::size_t nbytes) override {
    on_stream([&] { return cudaMemcpyAsync(to, from, nbytes, cudaMemcpyDefault, equipment_.stream); }, "cudaMemcpyAsync");
  }
  void mark(std::size_t slot) override {
    on_stream([&] { return cudaEventRecord(equipment_.done[slot], equipment_.stream); }, "cudaEventRecord");
  }
  void wait(std::size_t slot) override {
    on_stream([&] { return cudaEventSynchronize(equipment_.done[slot]); }, "a copy between host and device");
  }

 private:
  template <class Call>
  void on_stream(Call call, char const* what) {
    cudaError_t const status = call();
    failed_ = failed_ || status != cudaSuccess;
    check(status, what);
  }

  int device_;
  bool failed_ = false;
  Equipment equipment_;
};

}  // namespace

Event::Event(int device) : device_(device) {
  if (Kept<cudaEvent_t>::of_process().take(device, event_)) return;
  OnDevice const on(device);
  check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
}

Event::~Event() {
  if (event_ != nullptr) Kept<cudaEvent_t>::of_process().give_back(device_, event_);
}

bool Event::passed() const {
  cudaError_t const status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  check(status, "the device");
  return true;
}

Fence fence_after(int device, std::span<StreamHandle const> producers) {
  OnDevice const on(device);
  auto const marks = std::make_shared<std::vector<Event>>();
  auto const mark = [&](StreamHandle stream) {
    check(cudaEventRecord(marks->emplace_back(device).get(), reinterpret_cast<cudaStream_t>(stream)), "cudaEventRecord on the producer's stream");
    // A GPU that has nothing to do takes a few microseconds to say so; whoever asks later asks by a timer.
    auto const end = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
    do {
      if (marks->back().passed()) return marks->pop_back();
    } while (std::chrono::steady_clock::now() < end);
  };
  mark(legacy_stream);
  for (StreamHandle const producer : producers) {
    if (producer != legacy_stream && producer != 0) mark(producer);
  }
  if (marks->empty()) return {};
  return [marks] {
    for (Event const& event : *marks) {
      if (!event.passed()) return false;
    }
    return true;
  };
}

std::unique_ptr<Slots> slots(int device) { return std::make_unique<CudaSlots>(device); }

SlotsStats slots_stats() noexcept { return {.pinned_nbytes = pinned_kept, .unpinned = unpinned}; }

}  // namespace transload::staging
