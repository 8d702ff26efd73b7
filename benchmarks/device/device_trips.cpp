// Device frames there and back between two processes, C++ to C++, on one GPU: as they go by default, over TCP with every shortcut off, and read where they
// lie whatever their size; each beside bare copies of the same bytes there and back, and beside a message of one byte in host memory.
//
//   device_trips [--twin] [--trips N] [--inline BYTES] [BYTES…]     --twin: host memory that stands in for a GPU's, where there is none;
//                                                                   --inline: up to how many bytes go with their message
//
// A trip is from the call of `send` to the moment when the frame that the peer sent back can be used. Both ends ask in turns and sleep while nothing comes.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "transload/base/error.hpp"
#include "transload/memory/cuda.hpp"
#include "transload/memory/device.hpp"
#include "transload/transport/engine.hpp"

#ifdef TRIPS_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

namespace transload {
namespace {

using Clock = std::chrono::steady_clock;

#ifdef TRIPS_WITH_CUDA
void check(cudaError_t status, char const* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}
#endif

/// Memory of one device as CuPy's pool has it: from cudaMalloc, so that it can be exported, and kept.
class Pool final : public Resource {
 public:
  explicit Pool(int device) : device_(device) {}
  Pool(Pool const&) = delete;
  ~Pool() override {
    for (auto const& [nbytes, blocks] : idle_) {
      for (std::byte* const block : blocks) {
        if (device_ == host_twin) delete[] block;
#ifdef TRIPS_WITH_CUDA
        if (device_ != host_twin) (void)cudaFree(block);
#endif
      }
    }
  }

  std::span<std::byte> allocate(std::size_t nbytes) override {
    std::lock_guard const lock(mutex_);
    auto& idle = idle_[nbytes];
    if (!idle.empty()) {
      std::byte* const block = idle.back();
      idle.pop_back();
      return {block, nbytes};
    }
    if (device_ == host_twin) return {new std::byte[nbytes], nbytes};
    void* block = nullptr;
#ifdef TRIPS_WITH_CUDA
    check(cudaMalloc(&block, nbytes), "cudaMalloc");
#endif
    return {static_cast<std::byte*>(block), nbytes};
  }
  void deallocate(std::span<std::byte> block) noexcept override {
    std::lock_guard const lock(mutex_);
    idle_[block.size()].push_back(block.data());
  }
  [[nodiscard]] MemoryKind kind() const noexcept override { return MemoryKind::device; }
  [[nodiscard]] int device() const noexcept override { return device_; }

 private:
  int device_;
  std::mutex mutex_;
  std::map<std::size_t, std::vector<std::byte*>> idle_;
};

struct Way {
  char const* name;
  bool exports;
  std::uint64_t inline_nbytes;
};
Way ways[] = {{"one GPU", true, std::uint64_t{64} << 10}, {"TCP, 12 streams", false, std::uint64_t{64} << 10}, {"CUDA IPC alone", true, 0}};

TransportOptions options_of(Way const& way, Pool& pool) {
  TransportOptions options;
  options.device_resource = &pool;
  options.lands_when_received = true;
  options.exports = way.exports;
  options.inline_device_nbytes = way.inline_nbytes;
  if (!way.exports) {
    options.streams = 12;
    options.local_streams = 0;
  }
  return options;
}

/// The next message, its device frames on the device.
Frames receive(Connection& connection, Pool& pool) {
  auto const land = [&](Announced const& announced) {
    Frames frames;
    for (std::uint64_t const nbytes : announced.sizes) frames.push_back(Buffer::allocate(nbytes, pool));
    return frames;
  };
  for (Frames frames;;) {
    std::promise<void> readable;
    connection.when_readable([&] { readable.set_value(); });
    readable.get_future().get();
    if (connection.try_receive(frames, land)) return frames;
    if (connection.reads_device() && connection.wait_device(std::chrono::microseconds(200)) && connection.try_receive(frames, land)) return frames;
  }
}

// ── the peer ─────────────────────────────────────────────────────────────────────────────────────────────────

int serve(int device) {
  Pool pool(device);
  Engine engine;
  std::vector<std::promise<Connection>> accepted(std::size(ways));
  std::vector<Listener> listeners;
  for (std::size_t i = 0; i < std::size(ways); ++i) {
    listeners.push_back(engine.listen({"127.0.0.1", 0}, options_of(ways[i], pool), [&, i](Connection connection) { accepted[i].set_value(std::move(connection)); }));
    std::printf("%u\n", static_cast<unsigned>(listeners.back().addresses().front().port));
  }
  std::fflush(stdout);
  for (auto& one : accepted) {
    Connection connection = one.get_future().get();
    try {
      for (;;) connection.send(receive(connection, pool));
    } catch (Error const& error) {
      if (error.kind() != ErrorKind::disconnected) throw;
    }
  }
  return 0;
}

class Peer {
 public:
  Peer(int device, std::uint64_t inline_nbytes) {
    std::string const nbytes = std::to_string(inline_nbytes);
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(ends[1], 1);
      ::close(ends[0]);
      ::execl("/proc/self/exe", "device_trips", "--serve", "--inline", nbytes.c_str(), device == host_twin ? "--twin" : "--serve", static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ::close(ends[1]);
    said_ = ::fdopen(ends[0], "r");
  }
  Peer(Peer const&) = delete;
  ~Peer() {
    std::fclose(said_);
    ::waitpid(child_, nullptr, 0);
  }
  [[nodiscard]] std::uint16_t port() {
    unsigned port = 0;
    if (std::fscanf(said_, "%u", &port) != 1) throw std::runtime_error("the peer did not start");
    return static_cast<std::uint16_t>(port);
  }

 private:
  pid_t child_ = 0;
  std::FILE* said_ = nullptr;
};

// ── the figures ──────────────────────────────────────────────────────────────────────────────────────────────

struct Spread {
  double median = 0, low = 0, high = 0;  ///< microseconds; quartiles
};

void row(char const* what, std::size_t nbytes, Spread const& of) {
  std::printf("%-18s %12zu %12.1f %11.1f %11.1f %8.2f", what, nbytes, of.median, of.low, of.high, 2e-3 * static_cast<double>(nbytes) / of.median);
}

/// `trip` again and again, after a few that are not counted.
template <class Trip>
Spread measured(unsigned trips, Trip trip) {
  std::vector<double> taken;
  for (unsigned i = 0; i < trips + trips / 10 + 2; ++i) {
    auto const began = Clock::now();
    trip();
    if (i >= trips / 10 + 2) taken.push_back(std::chrono::duration<double, std::micro>(Clock::now() - began).count());
  }
  std::ranges::sort(taken);
  return {taken[taken.size() / 2], taken[taken.size() / 4], taken[taken.size() * 3 / 4]};
}

/// What the bytes cost without a transport: two copies on the device, each waited for; or down, up, down, up through pinned memory.
class Bare {
 public:
  Bare(int device, std::size_t nbytes, Pool& pool) : device_(device), a_(Buffer::allocate(nbytes, pool)), b_(Buffer::allocate(nbytes, pool)) {
#ifdef TRIPS_WITH_CUDA
    if (device != host_twin) {
      check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
      check(cudaHostAlloc(&pinned_, nbytes, cudaHostAllocDefault), "cudaHostAlloc");
    }
#endif
    if (device == host_twin) twin_.resize(nbytes);
  }
  Bare(Bare const&) = delete;
  ~Bare() {
#ifdef TRIPS_WITH_CUDA
    if (pinned_ != nullptr) (void)cudaFreeHost(pinned_);
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
#endif
  }
  void on_device() {
    copy(b_.writable().data(), a_.data());
    copy(a_.writable().data(), b_.data());
  }
  void through_host() {
    void* const host = device_ == host_twin ? twin_.data() : pinned_;
    for (int i = 0; i < 2; ++i) {
      copy(host, a_.data());
      copy(b_.writable().data(), host);
    }
  }

 private:
  void copy(void* to, void const* from) {
    if (device_ == host_twin) {
      std::memcpy(to, from, a_.nbytes());
      return;
    }
#ifdef TRIPS_WITH_CUDA
    check(cudaMemcpyAsync(to, from, a_.nbytes(), cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream_), "a copy");
#endif
  }

  int device_;
  Buffer a_, b_;
  void* pinned_ = nullptr;
  std::vector<std::byte> twin_;
#ifdef TRIPS_WITH_CUDA
  cudaStream_t stream_ = nullptr;
#endif
};

std::vector<std::byte> noise(std::size_t nbytes) {
  std::vector<std::byte> bytes(nbytes);
  std::uint32_t state = 7;
  for (auto& b : bytes) b = static_cast<std::byte>((state = state * 1664525u + 1013904223u) >> 24);
  return bytes;
}

int measure(int device, unsigned trips, std::vector<std::size_t> const& sizes) {
  Pool pool(device);
  Engine engine;
  Peer peer(device, ways[0].inline_nbytes);
  std::printf("%-18s %12s %12s %23s %8s %9s  %s\n", "way", "bytes", "median µs", "quartiles", "GB/s", "× bare", "device path");
  for (Way const& way : ways) {
    Connection connection = engine.connect({"127.0.0.1", peer.port()}, options_of(way, pool));
    row("  host, 1 byte", 1, measured(trips, [&] {
          Frames frames;
          frames.push_back(Buffer::allocate(1, default_resource()));
          connection.send(std::move(frames));
          (void)receive(connection, pool);
        }));
    std::printf("\n");
    for (std::size_t const nbytes : sizes) {
      unsigned const some = std::max<unsigned>(3, static_cast<unsigned>(std::min<std::uint64_t>(trips, (std::uint64_t{8} << 30) / nbytes)));
      auto const content = noise(nbytes);
      Buffer frame = Buffer::allocate(nbytes, pool);
      Copy const up{.to = frame.writable().data(), .from = content.data(), .nbytes = nbytes};
      copy_to_device({&up, 1}, device);
      Spread const trip = measured(some, [&] {
        Frames frames;
        frames.push_back(std::move(frame));
        connection.send(std::move(frames));
        frame = std::move(receive(connection, pool).at(0));
      });
      std::vector<std::byte> back(nbytes);
      if (frame.kind() == MemoryKind::device) {
        Copy const down{.to = back.data(), .from = frame.data(), .nbytes = nbytes};
        copy_to_host({&down, 1}, device);
      } else {
        std::ranges::copy(frame.bytes(), back.begin());
      }
      if (back != content) throw std::runtime_error("other bytes came back");
      frame.reset();
      Bare bare(device, nbytes, pool);
      Spread const copies = measured(some, [&] { way.exports ? bare.on_device() : bare.through_host(); });
      row(way.name, nbytes, trip);
      std::printf(" %8.2f×  %s\n", trip.median / copies.median, connection.stats().device_path.c_str());
      row(way.exports ? "  on the device" : "  through the host", nbytes, copies);
      std::printf("\n");
      std::fflush(stdout);
    }
    connection.abort();
  }
  return 0;
}

int run(std::vector<std::string_view> arguments) {
  int device = device_count() > 0 ? 0 : host_twin;
  unsigned trips = 1000;
  bool serves = false;
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string_view const word = arguments[i];
    if (word == "--serve") {
      serves = true;
    } else if (word == "--twin") {
      device = host_twin;
    } else if (word == "--inline") {
      ways[0].inline_nbytes = ways[1].inline_nbytes = std::stoull(std::string(arguments.at(++i)));
    } else if (word == "--trips") {
      trips = static_cast<unsigned>(std::stoul(std::string(arguments.at(++i))));
    } else {
      sizes.push_back(std::stoull(std::string(word)));
    }
  }
  if (serves) return serve(device);
  if (sizes.empty()) sizes = {1024, std::size_t{64} << 20, std::size_t{1} << 30};
  return measure(device, trips, sizes);
}

}  // namespace
}  // namespace transload

int main(int argc, char** argv) {
  try {
    return transload::run({argv + 1, argv + argc});
  } catch (std::exception const& error) {
    std::fprintf(stderr, "device_trips: %s\n", error.what());
    return 1;
  }
}
