/// CUDA IPC: handles of our memory, and memory of others that is open here.
#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cuda_calls.hpp"
#include "staging.hpp"
#include "transload/memory/cuda.hpp"

namespace transload::staging {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kept_for = std::chrono::seconds(2);
constexpr std::size_t exports_most = 4096;

/// The driver's calls that the runtime has no twin of.
struct Driver {
  CUresult (*address_range)(CUdeviceptr*, std::size_t*, CUdeviceptr) = nullptr;
  CUresult (*attributes)(unsigned, CUpointer_attribute*, void**, CUdeviceptr) = nullptr;

  static Driver const& of_process() {
    static Driver const driver;
    return driver;
  }

 private:
  Driver() {
    load("cuMemGetAddressRange", address_range);
    load("cuPointerGetAttributes", attributes);
  }
  template <class F>
  static void load(char const* name, F& function) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result), name);
    expects(result == cudaDriverEntryPointSuccess, ErrorKind::unsupported, [&] { return cat("the driver has no ", name); });
    function = reinterpret_cast<F>(found);
  }
};

CUdeviceptr address(void const* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

std::array<std::byte, 16> uuid_of(int device) {
  static std::mutex mutex;
  static std::map<int, std::array<std::byte, 16>> known;
  std::lock_guard const lock(mutex);
  auto const [at, fresh] = known.try_emplace(device);
  if (fresh) {
    cudaDeviceProp properties{};
    cudaError_t const status = cudaGetDeviceProperties(&properties, device);
    if (status != cudaSuccess) known.erase(at);
    check(status, "cudaGetDeviceProperties");
    std::memcpy(at->second.data(), &properties.uuid, 16);
  }
  return at->second;
}

// ── ours ─────────────────────────────────────────────────────────────────────────────────────────────────

/// Handles of allocations that were exported before, by their first byte: making one takes as long as a small copy.
class Exports {
 public:
  static Exports& of_process() {
    static auto* const exports = new Exports;
    return *exports;
  }
  [[nodiscard]] bool find(CUdeviceptr base, std::uint64_t allocation, ExportedMemory& memory) {
    std::lock_guard const lock(mutex_);
    auto const at = known_.find(base);
    if (at == known_.end() || at->second.allocation != allocation) return false;
    memory.handle = at->second.handle;
    return true;
  }
  void remember(CUdeviceptr base, ExportedMemory const& memory) {
    std::lock_guard const lock(mutex_);
    if (known_.size() >= exports_most) known_.clear();
    known_[base] = memory;
  }

 private:
  std::mutex mutex_;
  std::map<CUdeviceptr, ExportedMemory> known_;
};

// ── theirs ───────────────────────────────────────────────────────────────────────────────────────────────

/// An allocation of another process, open on one of our devices.
class Mapping {
 public:
  Mapping(ExportedMemory const& memory, int device) : device_(device) {
    OnDevice const on(device);
    cudaIpcMemHandle_t handle;
    static_assert(sizeof handle == sizeof memory.handle);
    std::memcpy(&handle, memory.handle.data(), sizeof handle);
    void* base = nullptr;
    cudaError_t const status = cudaIpcOpenMemHandle(&base, handle, cudaIpcMemLazyEnablePeerAccess);
    if (status != cudaSuccess) {
      (void)cudaGetLastError();
      raise(ErrorKind::unsupported, cat("memory of another process cannot be opened: ", cudaGetErrorString(status)));
    }
    base_ = static_cast<std::byte*>(base);
    CUdeviceptr begin = 0;
    if (Driver::of_process().address_range(&begin, &nbytes_, address(base)) != CUDA_SUCCESS) nbytes_ = 0;
  }
  Mapping(Mapping const&) = delete;
  ~Mapping() {
    int before = device_;
    (void)cudaGetDevice(&before);
    if (before != device_) (void)cudaSetDevice(device_);
    if (cudaIpcCloseMemHandle(base_) != cudaSuccess) (void)cudaGetLastError();
    if (before != device_) (void)cudaSetDevice(before);
  }

  [[nodiscard]] std::byte const* at(ExportedMemory const& memory) const {
    expects(memory.offset <= nbytes_ && memory.nbytes <= nbytes_ - memory.offset, ErrorKind::malformed,
            [&] { return cat("exported memory: bytes ", memory.offset, " + ", memory.nbytes, " of an allocation of ", nbytes_); });
    return base_ + memory.offset;
  }

 private:
  int device_;
  std::byte* base_ = nullptr;
  std::size_t nbytes_ = 0;
};

/// What is open here. A mapping is closed when nobody has used it for a while; its owner may be told meanwhile that the memory is free, and give it back to
/// CUDA: what was freed stays there as long as it is open, and nobody reads it, as a later allocation has another number.
class Mappings {
 public:
  static Mappings& of_process() {
    static auto* const mappings = new Mappings;
    return *mappings;
  }

  [[nodiscard]] std::shared_ptr<Mapping> open(ExportedMemory const& memory, int device, std::array<std::byte, 16> const& process) {
    std::lock_guard const lock(mutex_);
    auto const now = Clock::now();
    for (Entry& entry : list_) {
      if (entry.allocation != memory.allocation || entry.device != device || entry.handle != memory.handle || entry.process != process) continue;
      entry.used = now;
      return entry.mapping;
    }
    auto mapping = std::make_shared<Mapping>(memory, device);
    list_.push_back({process, memory.handle, memory.allocation, device, now, mapping});
    return mapping;
  }

  void close_idle() noexcept {
    std::list<Entry> closed;
    std::lock_guard const lock(mutex_);
    auto const now = Clock::now();
    for (auto at = list_.begin(); at != list_.end();) {
      auto const next = std::next(at);
      if (at->mapping.use_count() == 1 && now - at->used > kept_for) closed.splice(closed.end(), list_, at);
      at = next;
    }
  }

  [[nodiscard]] std::size_t size() noexcept {
    std::lock_guard const lock(mutex_);
    return list_.size();
  }

 private:
  struct Entry {
    std::array<std::byte, 16> process;
    std::array<std::byte, 64> handle;
    std::uint64_t allocation;
    int device;
    Clock::time_point used;
    std::shared_ptr<Mapping> mapping;
  };
  std::mutex mutex_;
  std::list<Entry> list_;
};

/// A stream for pulls, for each device; copies of one pull go over it in order, those of others wait behind them.
cudaStream_t stream_of(int device) {
  static std::mutex mutex;
  static auto* const streams = new std::map<int, cudaStream_t>;
  std::lock_guard const lock(mutex);
  auto const [at, fresh] = streams->try_emplace(device, nullptr);
  if (fresh) {
    OnDevice const on(device);
    cudaError_t const status = cudaStreamCreateWithFlags(&at->second, cudaStreamNonBlocking);
    if (status != cudaSuccess) streams->erase(at);
    check(status, "cudaStreamCreate");
  }
  return at->second;
}

class CudaPull final : public Pull {
 public:
  CudaPull(std::span<ExportedMemory const> from, std::span<void* const> to, int device, std::array<std::byte, 16> const& process) : event_(device) {
    std::vector<std::byte const*> places;
    for (ExportedMemory const& memory : from) {
      mappings_.push_back(Mappings::of_process().open(memory, device, process));
      places.push_back(mappings_.back()->at(memory));
    }
    OnDevice const on(device);
    cudaStream_t const stream = stream_of(device);
    try {
      for (std::size_t i = 0; i < from.size(); ++i) {
        check(cudaMemcpyAsync(to[i], places[i], from[i].nbytes, cudaMemcpyDefault, stream), "a copy from another process");
      }
      check(cudaEventRecord(event_.get(), stream), "cudaEventRecord");
    } catch (...) {
      (void)cudaStreamSynchronize(stream);
      throw;
    }
  }
  ~CudaPull() override {
    if (cudaEventSynchronize(event_.get()) != cudaSuccess) (void)cudaGetLastError();
  }

  bool done() override { return event_.passed(); }

 private:
  std::vector<std::shared_ptr<Mapping>> mappings_;
  Event event_;
};

}  // namespace

std::optional<ExportedMemory> export_memory(std::span<std::byte const> bytes, int device, std::string& why_not) {
  Driver const& driver = Driver::of_process();
  OnDevice const on(device);
  CUdeviceptr base = 0;
  std::size_t nbytes = 0;
  if (driver.address_range(&base, &nbytes, address(bytes.data())) != CUDA_SUCCESS) {
    why_not = "the driver does not know the allocation";
    return {};
  }
  unsigned long long allocation = 0;
  unsigned shareable = 0;
  CUmemoryPool pool = nullptr;
  unsigned managed = 0;
  std::array<CUpointer_attribute, 4> wanted{CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                                            CU_POINTER_ATTRIBUTE_IS_MANAGED};
  std::array<void*, 4> values{&allocation, &shareable, &pool, &managed};
  if (driver.attributes(static_cast<unsigned>(wanted.size()), wanted.data(), values.data(), address(bytes.data())) != CUDA_SUCCESS || shareable == 0) {
    why_not = pool != nullptr ? "memory of a pool of cudaMallocAsync" : managed != 0 ? "managed memory" : "memory that CUDA does not share (not of cudaMalloc)";
    return {};
  }
  ExportedMemory memory{.device = uuid_of(device), .allocation = allocation, .offset = address(bytes.data()) - base, .nbytes = bytes.size()};
  if (Exports::of_process().find(base, allocation, memory)) return memory;
  cudaIpcMemHandle_t handle;
  cudaError_t const status = cudaIpcGetMemHandle(&handle, reinterpret_cast<void*>(base));
  if (status != cudaSuccess) {
    (void)cudaGetLastError();
    why_not = cat("cudaIpcGetMemHandle: ", cudaGetErrorString(status));
    return {};
  }
  std::memcpy(memory.handle.data(), &handle, sizeof handle);
  Exports::of_process().remember(base, memory);
  return memory;
}

std::unique_ptr<Pull> pull(std::span<ExportedMemory const> from, std::span<void* const> to, int device, std::array<std::byte, 16> const& process) {
  return std::make_unique<CudaPull>(from, to, device, process);
}

void close_imported() noexcept { Mappings::of_process().close_idle(); }

std::size_t nimported() noexcept { return Mappings::of_process().size(); }

}  // namespace transload::staging
