#include "transload/memory/ipc.hpp"

#include <unistd.h>

#include <cstring>

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

class Done final : public Pull {
 public:
  bool done() override { return true; }
};

std::unique_ptr<Pull> pull_twin(std::span<ExportedMemory const> from, std::span<void* const> to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    TwinHandle handle;
    std::memcpy(&handle, from[i].handle.data(), sizeof handle);
    expects(handle.pid == static_cast<std::uint64_t>(::getpid()), ErrorKind::unsupported, "host memory that stands in for a GPU's cannot be opened by another process");
    std::memcpy(to[i], reinterpret_cast<void const*>(handle.address + from[i].offset), from[i].nbytes);
  }
  return std::make_unique<Done>();
}

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
  return device == host_twin ? pull_twin(from, to) : staging::pull(from, to, device, process);
}

void close_imported() noexcept { staging::close_imported(); }

std::size_t nimported() noexcept { return staging::nimported(); }

}  // namespace transload
