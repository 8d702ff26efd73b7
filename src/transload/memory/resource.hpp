#pragma once
/// Where memory comes from. Payload memory is aligned to 64 bytes, and receive buffers come from a warm pool.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>

namespace transload {

/// What kind of memory an address points into.
enum class MemoryKind : std::uint8_t {
  host,    ///< ordinary memory
  pinned,  ///< page-locked host memory, which a GPU copies from at full speed
  device,  ///< memory of a GPU; the host must not follow the pointer
};

[[nodiscard]] std::string_view to_string(MemoryKind kind) noexcept;

/// Gives and takes back blocks of one kind of memory. Every implementation may be called from any thread.
///
/// A resource outlives every block it gave. `allocate` is not `noexcept`, `deallocate` is.
class Resource {
 public:
  static constexpr std::size_t alignment = 64;  ///< bytes; every block begins at a multiple

  Resource() = default;
  Resource(Resource const&) = delete;
  Resource& operator=(Resource const&) = delete;
  virtual ~Resource() = default;

  /// A block of exactly `nbytes` bytes, not initialised. An empty block for 0.
  ///
  /// @throws Error{exhausted} when there is no room.
  [[nodiscard]] virtual std::span<std::byte> allocate(std::size_t nbytes) = 0;
  /// Takes back what `allocate` gave, with its full length.
  virtual void deallocate(std::span<std::byte> block) noexcept = 0;
  [[nodiscard]] virtual MemoryKind kind() const noexcept = 0;
  /// The GPU whose memory it gives; of host memory it says nothing.
  [[nodiscard]] virtual int device() const noexcept { return 0; }
};

/// Host memory straight from the system's allocator.
class HostResource final : public Resource {
 public:
  [[nodiscard]] std::span<std::byte> allocate(std::size_t nbytes) override;
  void deallocate(std::span<std::byte> block) noexcept override;
  [[nodiscard]] MemoryKind kind() const noexcept override { return MemoryKind::host; }
};

/// Keeps returned host blocks warm for the next caller: a fresh page costs more than the wire on many hosts.
///
/// Blocks are rounded up to a size class (four a doubling, so at most a quarter is unused and untouched). At most
/// `keep_nbytes` bytes lie idle; beyond that the block that was idle longest goes back to `upstream` first. A block
/// above `keep_nbytes`, or above `largest_kept_nbytes`, is not kept.
class PoolResource final : public Resource {
 public:
  static constexpr std::size_t default_keep_nbytes = std::size_t{256} << 20;
  static constexpr std::size_t largest_kept_nbytes = std::size_t{4} << 30;

  /// `upstream` gives host memory, pinned or not, and outlives the pool.
  explicit PoolResource(Resource& upstream, std::size_t keep_nbytes = default_keep_nbytes);
  ~PoolResource() override;

  [[nodiscard]] std::span<std::byte> allocate(std::size_t nbytes) override;
  void deallocate(std::span<std::byte> block) noexcept override;
  [[nodiscard]] MemoryKind kind() const noexcept override { return upstream_.kind(); }

  /// Keeps so many bytes idle from now on, and gives back what is beyond them.
  void keep(std::size_t nbytes) noexcept;
  /// Gives every idle block back to `upstream`.
  void release() noexcept;
  /// Makes the other threads of this process wait, so that a fork finds the pool whole; the one that forks calls `unlock` in parent and child.
  void lock() { mutex_.lock(); }
  void unlock() noexcept { mutex_.unlock(); }
  /// Bytes that lie idle now.
  [[nodiscard]] std::size_t idle_nbytes() const noexcept;

 private:
  struct Idle;  // lives in the idle block itself, so that giving back needs no memory
  static constexpr std::size_t nclasses = 4 * 58;

  void unlink(Idle* block) noexcept;
  void release_oldest() noexcept;

  Resource& upstream_;
  std::size_t keep_nbytes_;
  mutable std::mutex mutex_;
  std::array<Idle*, nclasses> by_class_{};
  Idle* oldest_ = nullptr;
  Idle* newest_ = nullptr;
  std::size_t idle_nbytes_ = 0;
};

/// Bytes of memory that this machine has.
[[nodiscard]] std::uint64_t physical_nbytes() noexcept;

/// The process's resource for `kind`, never destroyed: for host and pinned memory a `PoolResource`, for device memory that of the calling
/// thread's current device, which CUDA pools itself (`cudaMallocAsync`; a block may be used on every stream). The child of a fork uses host
/// memory as its parent does, whatever other threads of the parent were doing.
///
/// @throws Error{unsupported} for pinned and device memory, with the reason: no CUDA in the build or no GPU here.
[[nodiscard]] Resource& default_resource(MemoryKind kind = MemoryKind::host);

}  // namespace transload
