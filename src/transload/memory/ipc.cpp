#include "transload/memory/ipc.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "staging.hpp"
#include "transload/base/error.hpp"

namespace transload {

namespace {

template <class T>
std::byte* put(std::byte* at, T const& value) {
  std::memcpy(at, &value, sizeof value);
  return at + sizeof value;
}

template <class T>
std::byte const* get(std::byte const* at, T& value) {
  std::memcpy(&value, at, sizeof value);
  return at + sizeof value;
}

/// The host twin's: other ends in this process can read the memory, other processes cannot.
struct TwinHandle {
  std::uint64_t pid;
  std::uint64_t address;
};

/// Its owner may let go of the memory meanwhile, as a GPU's: who reads is told, and does not fall. That takes a system call.
void read_twin(void* to, std::uint64_t address, std::size_t nbytes) {
  while (nbytes > 0) {
    iovec const here{to, nbytes};
    iovec const there{reinterpret_cast<void*>(address), nbytes};
    ssize_t const n = ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0);
    if (n < 0 && (errno == EPERM || errno == ENOSYS)) {  // not in this container
      std::memcpy(to, reinterpret_cast<void const*>(address), nbytes);
      return;
    }
    expects(n > 0, ErrorKind::disconnected, [&] { return cat("the peer's memory is gone: ", std::strerror(errno)); });
    to = static_cast<std::byte*>(to) + n;
    address += static_cast<std::uint64_t>(n);
    nbytes -= static_cast<std::size_t>(n);
  }
}

/// Takes as many microseconds as the number of the last allocation: 0 for what was exported here, others in tests.
class TwinPull final : public Pull {
 public:
  TwinPull(std::span<ExportedMemory const> from, std::span<void* const> to) : from_(from.begin(), from.end()), to_(to.begin(), to.end()) {
    for (ExportedMemory const& memory : from_) {
      expects(handle_of(memory).pid == static_cast<std::uint64_t>(::getpid()), ErrorKind::unsupported,
              "host memory that stands in for a GPU's cannot be opened by another process");
      end_ = std::chrono::steady_clock::now() + std::chrono::microseconds(memory.allocation);
    }
    (void)done();
  }
  bool done() override {
    if (std::chrono::steady_clock::now() < end_) return false;
    for (std::size_t i = 0; i < from_.size(); ++i) read_twin(to_[i], handle_of(from_[i]).address + from_[i].offset, from_[i].nbytes);
    from_.clear();
    return true;
  }

 private:
  static TwinHandle handle_of(ExportedMemory const& memory) {
    TwinHandle handle;
    std::memcpy(&handle, memory.handle.data(), sizeof handle);
    return handle;
  }
  std::vector<ExportedMemory> from_;
  std::vector<void*> to_;
  std::chrono::steady_clock::time_point end_{};
};

}  // namespace

void pack_exported(ExportedMemory const& memory, std::vector<std::byte>& out) {
  std::size_t const begin = out.size();
  out.resize(begin + ExportedMemory::wire_nbytes);
  std::byte* at = out.data() + begin;
  at = put(at, memory.handle);
  at = put(at, memory.device);
  at = put(at, memory.allocation);
  at = put(at, memory.offset);
  put(at, memory.nbytes);
}

ExportedMemory parse_exported(std::span<std::byte const> bytes) noexcept {
  ExportedMemory memory;
  std::byte const* at = bytes.data();
  at = get(at, memory.handle);
  at = get(at, memory.device);
  at = get(at, memory.allocation);
  at = get(at, memory.offset);
  get(at, memory.nbytes);
  return memory;
}

std::optional<ExportedMemory> export_memory(std::span<std::byte const> bytes, int device, std::string& why_not) {
  if (device != host_twin) return staging::export_memory(bytes, device, why_not);
  ExportedMemory memory{.nbytes = bytes.size()};
  TwinHandle const handle{static_cast<std::uint64_t>(::getpid()), reinterpret_cast<std::uint64_t>(bytes.data())};
  std::memcpy(memory.handle.data(), &handle, sizeof handle);
  return memory;
}

std::unique_ptr<Pull> pull(std::span<ExportedMemory const> from, std::span<void* const> to, int device, std::array<std::byte, 16> const& process) {
  // Only an end whose own memory is the twin's reads so: addresses of a peer's choice are never followed.
  if (device == host_twin) return std::make_unique<TwinPull>(from, to);
  return staging::pull(from, to, device, process);
}

void close_imported() noexcept { staging::close_imported(); }

std::size_t nimported() noexcept { return staging::nimported(); }

}  // namespace transload
