#include "staging.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "cuda_calls.hpp"
#include "gather.hpp"
#include "pieces.hpp"
#include "slots.hpp"
#include "transload/base/error.hpp"
#include "transload/memory/cuda.hpp"

namespace transload {

namespace staging {

namespace {

/// Pinned and device memory of a slot. Its time at 50 GB/s, 80 µs, is what hides the calls around it.
constexpr std::size_t slot_nbytes = std::size_t{4} << 20;
/// Pieces up to this size are gathered; a copy call of its own costs what the GPU moves in the meantime.
constexpr std::size_t piece_nbytes = std::size_t{256} << 10;
constexpr unsigned pieces_most = 4096;
constexpr std::size_t piece_align = 16;
/// Copies of one process at a time; each has two slots.
constexpr unsigned stagers_most = 8;
/// Bytes from which on one more thread moves them between pinned and other host memory.
constexpr std::size_t worth_a_thread = std::size_t{8} << 20;
constexpr unsigned threads_most = 4;

/// The arguments of a gather lie in front of a slot's bytes.
constexpr std::size_t arguments_nbytes = Pieces::nbytes(pieces_most);

struct Slot {
  std::byte* pinned = nullptr;
  std::byte* scratch = nullptr;  ///< on the device, of the same layout, with room for `gather` behind it
  std::size_t scratch_nbytes = 0;
  cudaEvent_t done = nullptr;

  [[nodiscard]] std::byte* bytes() const noexcept { return pinned + arguments_nbytes; }
  [[nodiscard]] std::byte* device_bytes() const noexcept { return scratch + arguments_nbytes; }
};

std::atomic<std::size_t> pinned_kept{0};
std::atomic<std::size_t> device_kept{0};
std::atomic<std::uint64_t> waits{0};

/// A stream with two slots: one is filled while the other one is emptied.
class Stager {
 public:
  explicit Stager(int device) : device_(device) {}
  Stager(Stager const&) = delete;

  /// Makes stream and slots. Apart from the constructor, so that what was made before an error is given back.
  void make() {
    OnDevice const on(device_);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    for (Slot& slot : slots_) {
      check(cudaEventCreateWithFlags(&slot.done, cudaEventDisableTiming), "cudaEventCreate");
      check(cudaHostAlloc(reinterpret_cast<void**>(&slot.pinned), arguments_nbytes + slot_nbytes, cudaHostAllocPortable), "pinned memory");
      pinned_kept += arguments_nbytes + slot_nbytes;
      std::size_t const nbytes = arguments_nbytes + slot_nbytes + gather_room();
      check(cudaMalloc(reinterpret_cast<void**>(&slot.scratch), nbytes), "device memory");
      device_kept += slot.scratch_nbytes = nbytes;
    }
  }
  ~Stager() {  // of one that could not be made whole, or that failed; others live on
    for (Slot& slot : slots_) {
      if (slot.scratch != nullptr) (void)cudaFree(slot.scratch), device_kept -= slot.scratch_nbytes;
      if (slot.pinned != nullptr) (void)cudaFreeHost(slot.pinned), pinned_kept -= arguments_nbytes + slot_nbytes;
      if (slot.done != nullptr) (void)cudaEventDestroy(slot.done);
    }
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  }

  bool failed = false;  ///< a call of CUDA's failed in the midst of its work

  [[nodiscard]] int device() const noexcept { return device_; }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }
  [[nodiscard]] Slot& slot(std::size_t i) noexcept { return slots_[i % slots_.size()]; }

  void wait_for(StreamHandle producer) {
    cudaEvent_t const event = slots_[0].done;
    check(cudaEventRecord(event, reinterpret_cast<cudaStream_t>(producer)), "cudaEventRecord on the producer's stream");
    check(cudaStreamWaitEvent(stream_, event, 0), "cudaStreamWaitEvent");
  }

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
  std::array<Slot, 2> slots_;
};

/// The process's stagers, made on demand and kept: pinning memory costs half a second a gigabyte.
class Stagers {
 public:
  /// Leaked: the driver is gone before static objects are.
  static Stagers& of_process() {
    static auto* const stagers = new Stagers;
    return *stagers;
  }

  /// At least one, `wanted` where there are so many.
  [[nodiscard]] std::vector<std::unique_ptr<Stager>> take(int device, unsigned wanted) {
    expects(::getpid() == pid_, ErrorKind::unsupported, "GPUs cannot be used in a process that was forked from one that used them");
    std::vector<std::unique_ptr<Stager>> taken;
    std::unique_lock lock(mutex_);
    auto& idle = idle_[device];
    auto& made = made_[device];
    if (idle.empty() && made >= stagers_most) {
      ++waits;
      given_back_.wait(lock, [&] { return !idle.empty() || made < stagers_most; });
    }
    while (taken.size() < wanted && !idle.empty()) {
      taken.push_back(std::move(idle.back()));
      idle.pop_back();
    }
    while (taken.size() < wanted && made < stagers_most) {
      ++made;
      lock.unlock();
      try {
        auto stager = std::make_unique<Stager>(device);
        stager->make();
        taken.push_back(std::move(stager));
        lock.lock();
      } catch (...) {
        lock.lock();
        --made;
        given_back_.notify_all();  // who waits may try it himself
        if (taken.empty()) throw;
        break;  // fewer will do
      }
    }
    return taken;
  }
  void give_back(std::vector<std::unique_ptr<Stager>> taken) noexcept {
    std::lock_guard const lock(mutex_);
    for (auto& stager : taken) {
      int const device = stager->device();
      if (stager->failed) {  // what its stream still does is not known
        --made_[device];
      } else {
        idle_[device].push_back(std::move(stager));
      }
    }
    given_back_.notify_all();
  }

 private:
  pid_t const pid_ = ::getpid();
  std::mutex mutex_;
  std::condition_variable given_back_;
  std::map<int, std::vector<std::unique_ptr<Stager>>> idle_;
  std::map<int, unsigned> made_;
};

/// What goes through a slot at once: part of one copy, or several small ones.
struct Load {
  std::size_t first = 0;  ///< of the copies
  std::size_t n = 0;      ///< how many; 1: a part of it
  std::size_t offset = 0;
  std::size_t nbytes = 0;
};

constexpr std::size_t aligned(std::size_t nbytes) noexcept { return (nbytes + piece_align - 1) / piece_align * piece_align; }

/// Deals the copies out: neighbours that are small share a load.
std::vector<Load> loads_of(std::span<Copy const> copies) {
  std::vector<Load> loads;
  for (std::size_t i = 0; i < copies.size();) {
    std::size_t n = 0;
    std::size_t nbytes = 0;
    while (i + n < copies.size() && n < pieces_most && copies[i + n].nbytes <= piece_nbytes && nbytes + aligned(copies[i + n].nbytes) <= slot_nbytes) {
      nbytes += aligned(copies[i + n].nbytes);
      ++n;
    }
    if (n > 1) {
      loads.push_back({.first = i, .n = n, .nbytes = nbytes});
      i += n;
      continue;
    }
    for (std::size_t at = 0; at < copies[i].nbytes; at += slot_nbytes) {
      loads.push_back({.first = i, .n = 1, .offset = at, .nbytes = std::min(slot_nbytes, copies[i].nbytes - at)});
    }
    ++i;
  }
  return loads;
}

void* advanced(void* at, std::size_t n) noexcept { return static_cast<std::byte*>(at) + n; }
void const* advanced(void const* at, std::size_t n) noexcept { return static_cast<std::byte const*>(at) + n; }

/// Writes the arguments of a gather into the slot, `place(i, offset)` telling from where to where piece i goes, and launches it.
template <class Place>
void launch(Stager& stager, Slot& slot, Load const& load, std::span<Copy const> copies, Place place) {
  Pieces const pieces(slot.pinned, load.n);
  std::size_t offset = 0;
  unsigned n = 0;
  for (std::size_t i = load.first; i < load.first + load.n; ++i) {
    if (copies[i].nbytes == 0) continue;
    auto const [from, to] = place(copies[i], offset);
    pieces.from()[n] = const_cast<void*>(from);
    pieces.to()[n] = to;
    pieces.sizes()[n] = copies[i].nbytes;
    offset += aligned(copies[i].nbytes);
    ++n;
  }
  if (n == 0) return;
  check(cudaMemcpyAsync(slot.scratch, slot.pinned, Pieces::nbytes(load.n), cudaMemcpyHostToDevice, stager.stream()), "cudaMemcpyAsync");
  Pieces const there(slot.scratch, load.n);
  check(gather(slot.device_bytes() + slot_nbytes, gather_room(), there.from(), there.to(), there.sizes(), n, stager.stream()), "gather");
}

struct Moving {
  std::span<Copy const> copies;
  std::vector<Load> loads;
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
};

void fetch(Stager& stager, Slot& slot, Load const& load, std::span<Copy const> copies) {
  if (load.n == 1) {
    check(cudaMemcpyAsync(slot.bytes(), advanced(copies[load.first].from, load.offset), load.nbytes, cudaMemcpyDeviceToHost, stager.stream()), "cudaMemcpyAsync");
  } else {
    launch(stager, slot, load, copies, [&](Copy const& copy, std::size_t offset) { return std::pair(copy.from, static_cast<void*>(slot.device_bytes() + offset)); });
    check(cudaMemcpyAsync(slot.bytes(), slot.device_bytes(), load.nbytes, cudaMemcpyDeviceToHost, stager.stream()), "cudaMemcpyAsync");
  }
  check(cudaEventRecord(slot.done, stager.stream()), "cudaEventRecord");
}

void put_down(Slot& slot, Load const& load, std::span<Copy const> copies) {
  check(cudaEventSynchronize(slot.done), "device to host");
  if (load.n == 1) {
    std::memcpy(advanced(copies[load.first].to, load.offset), slot.bytes(), load.nbytes);
    return;
  }
  std::size_t offset = 0;
  for (std::size_t i = load.first; i < load.first + load.n; ++i) {
    if (copies[i].nbytes != 0) std::memcpy(copies[i].to, slot.bytes() + offset, copies[i].nbytes);
    offset += aligned(copies[i].nbytes);
  }
}

void work_to_host(Stager& stager, Moving& moving) {
  OnDevice const on(stager.device());
  std::array<Load const*, 2> waiting{};
  std::size_t turn = 0;
  for (std::size_t i; !moving.failed && (i = moving.next++) < moving.loads.size(); ++turn) {
    Load const*& before = waiting[turn % 2];
    if (before != nullptr) put_down(stager.slot(turn), *before, moving.copies);
    before = &moving.loads[i];
    fetch(stager, stager.slot(turn), *before, moving.copies);
  }
  for (std::size_t k = 0; k < 2; ++k, ++turn) {
    if (Load const* const last = waiting[turn % 2]) put_down(stager.slot(turn), *last, moving.copies);
  }
}

void work_to_device(Stager& stager, Moving& moving) {
  OnDevice const on(stager.device());
  std::size_t turn = 0;
  for (std::size_t i; !moving.failed && (i = moving.next++) < moving.loads.size(); ++turn) {
    Slot& slot = stager.slot(turn);
    Load const& load = moving.loads[i];
    if (turn >= 2) check(cudaEventSynchronize(slot.done), "host to device");
    if (load.n == 1) {
      Copy const& copy = moving.copies[load.first];
      std::memcpy(slot.bytes(), advanced(copy.from, load.offset), load.nbytes);
      check(cudaMemcpyAsync(advanced(copy.to, load.offset), slot.bytes(), load.nbytes, cudaMemcpyHostToDevice, stager.stream()), "cudaMemcpyAsync");
    } else {
      std::size_t offset = 0;
      for (std::size_t k = load.first; k < load.first + load.n; ++k) {
        Copy const& copy = moving.copies[k];
        if (copy.nbytes != 0) std::memcpy(slot.bytes() + offset, copy.from, copy.nbytes);
        offset += aligned(copy.nbytes);
      }
      check(cudaMemcpyAsync(slot.device_bytes(), slot.bytes(), load.nbytes, cudaMemcpyHostToDevice, stager.stream()), "cudaMemcpyAsync");
      launch(stager, slot, load, moving.copies,
             [&](Copy const& copy, std::size_t at) { return std::pair(static_cast<void const*>(slot.device_bytes() + at), copy.to); });
    }
    check(cudaEventRecord(slot.done, stager.stream()), "cudaEventRecord");
  }
  check(cudaStreamSynchronize(stager.stream()), "host to device");
}

void work_on_device(Stager& stager, Moving& moving) {
  OnDevice const on(stager.device());
  std::size_t turn = 0;
  for (std::size_t i; !moving.failed && (i = moving.next++) < moving.loads.size();) {
    Load const& load = moving.loads[i];
    if (load.n == 1) {
      Copy const& copy = moving.copies[load.first];
      check(cudaMemcpyAsync(advanced(copy.to, load.offset), advanced(copy.from, load.offset), load.nbytes, cudaMemcpyDeviceToDevice, stager.stream()), "cudaMemcpyAsync");
      continue;
    }
    Slot& slot = stager.slot(turn);
    if (turn >= 2) check(cudaEventSynchronize(slot.done), "on the device");
    launch(stager, slot, load, moving.copies, [](Copy const& copy, std::size_t) { return std::pair(copy.from, copy.to); });
    check(cudaEventRecord(slot.done, stager.stream()), "cudaEventRecord");
    ++turn;
  }
  check(cudaStreamSynchronize(stager.stream()), "on the device");
}

/// Lets `work` go through the loads on as many stagers and threads as they are worth.
void move(std::span<Copy const> copies, int device, std::span<StreamHandle const> producers, unsigned threads, void (*work)(Stager&, Moving&)) {
  Moving moving{.copies = copies, .loads = loads_of(copies)};
  if (moving.loads.empty()) return;
  auto stagers = Stagers::of_process().take(device, std::min<unsigned>(threads, static_cast<unsigned>(moving.loads.size())));
  struct GiveBack {
    std::vector<std::unique_ptr<Stager>>& stagers;
    ~GiveBack() { Stagers::of_process().give_back(std::move(stagers)); }
  } const give_back{stagers};
  std::exception_ptr error;
  std::mutex mutex;
  auto const guarded = [&](Stager& stager, auto const& call) {
    try {
      call();
    } catch (...) {
      moving.failed = true;
      stager.failed = true;
      (void)cudaStreamSynchronize(stager.stream());  // nothing may write into what its owner believes is his
      std::lock_guard const lock(mutex);
      if (error == nullptr) error = std::current_exception();
    }
  };
  for (auto const& stager : stagers) {
    guarded(*stager, [&] {
      OnDevice const on(device);
      // Legacy work of other streams is done when the legacy stream's is: what is told of producers does not have to be all.
      stager->wait_for(legacy_stream);
      for (StreamHandle const producer : producers) {
        if (producer != legacy_stream) stager->wait_for(producer);
      }
    });
  }
  std::vector<std::thread> others;
  others.reserve(stagers.size());
  for (std::size_t i = 1; i < stagers.size() && error == nullptr; ++i) {
    try {
      others.emplace_back([&, i] { guarded(*stagers[i], [&] { work(*stagers[i], moving); }); });
    } catch (std::system_error const&) {
      break;  // no more threads: fewer will do
    }
  }
  if (error == nullptr) guarded(*stagers[0], [&] { work(*stagers[0], moving); });
  for (auto& other : others) other.join();
  if (error != nullptr) std::rethrow_exception(error);
}

unsigned threads_for(std::span<Copy const> copies) {
  std::size_t nbytes = 0;
  for (Copy const& copy : copies) nbytes += copy.nbytes;
  unsigned const cores = std::max(1u, std::thread::hardware_concurrency() / 2);
  return static_cast<unsigned>(std::clamp<std::size_t>(nbytes / worth_a_thread, 1, std::min(threads_most, cores)));
}

class PinnedResource final : public Resource {
 public:
  std::span<std::byte> allocate(std::size_t nbytes) override {
    if (nbytes == 0) return {};
    void* block = nullptr;
    check(cudaHostAlloc(&block, nbytes, cudaHostAllocPortable), "pinned memory");
    return {static_cast<std::byte*>(block), nbytes};
  }
  void deallocate(std::span<std::byte> block) noexcept override {
    if (!block.empty()) (void)cudaFreeHost(block.data());
  }
  [[nodiscard]] MemoryKind kind() const noexcept override { return MemoryKind::pinned; }
};

/// Blocks are given and taken back on the legacy default stream, and ready when they are given.
class DeviceResource final : public Resource {
 public:
  explicit DeviceResource(int device) : device_(device) {}

  std::span<std::byte> allocate(std::size_t nbytes) override {
    if (nbytes == 0) return {};
    OnDevice const on(device_);
    void* block = nullptr;
    check(cudaMallocAsync(&block, nbytes, cudaStreamLegacy), "device memory");
    check(cudaStreamSynchronize(cudaStreamLegacy), "device memory");
    return {static_cast<std::byte*>(block), nbytes};
  }
  void deallocate(std::span<std::byte> block) noexcept override {
    if (block.empty()) return;
    int before = device_;
    (void)cudaGetDevice(&before);  // the legacy stream is the current device's
    if (before != device_) (void)cudaSetDevice(device_);
    (void)cudaFreeAsync(block.data(), cudaStreamLegacy);
    if (before != device_) (void)cudaSetDevice(before);
  }
  [[nodiscard]] MemoryKind kind() const noexcept override { return MemoryKind::device; }
  [[nodiscard]] int device() const noexcept override { return device_; }

 private:
  int device_;
};

}  // namespace

Resource& resource(MemoryKind kind) {
  static auto* const pinned_upstream = new PinnedResource;
  static auto* const pinned = new PoolResource(*pinned_upstream);
  if (kind == MemoryKind::pinned) return *pinned;
  static auto* const devices = [] {
    auto* const made = new std::vector<std::unique_ptr<DeviceResource>>;
    for (int i = 0; i < device_count(); ++i) made->push_back(std::make_unique<DeviceResource>(i));
    return made;
  }();
  return *devices->at(static_cast<std::size_t>(current_device()));
}

std::size_t gather_room() {
  static std::size_t const nbytes = [] {  // not known where it throws: asked again the next time
    std::size_t needed = 0;
    check(gather_nbytes(pieces_most, needed), "the room of a gather");
    return needed;
  }();
  return nbytes;
}

void to_host(std::span<Copy const> copies, int device, std::span<StreamHandle const> producers) {
  move(copies, device, producers, threads_for(copies), &work_to_host);
}

void to_device(std::span<Copy const> copies, int device, std::span<StreamHandle const> producers) {
  move(copies, device, producers, threads_for(copies), &work_to_device);
}

void on_device(std::span<Copy const> copies, int device, std::span<StreamHandle const> producers) { move(copies, device, producers, 1, &work_on_device); }

}  // namespace staging

int device_of(void const* pointer) {
  cudaPointerAttributes attributes{};
  staging::check(cudaPointerGetAttributes(&attributes, pointer), "cudaPointerGetAttributes");
  return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged ? attributes.device : -1;
}

int current_device() {
  int device = 0;
  staging::check(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

StagingStats staging_stats() noexcept {
  auto const slots = staging::slots_stats();
  return {.pinned_nbytes = staging::pinned_kept + slots.pinned_nbytes, .device_nbytes = staging::device_kept, .waits = staging::waits, .unpinned = slots.unpinned};
}

}  // namespace transload
