#pragma once
/// The threads that move bytes, and how connections begin. docs/transport.md.

#include <functional>
#include <memory>
#include <vector>

#include "transload/transport/address.hpp"
#include "transload/transport/connection.hpp"
#include "transload/transport/options.hpp"

namespace transload {

namespace transport {
class Core;
class Door;
}  // namespace transport

/// Listens until it is stopped or dropped. Connections that were accepted live on.
class Listener {
 public:
  Listener() noexcept = default;
  explicit Listener(std::shared_ptr<transport::Door> door) noexcept : door_(std::move(door)) {}
  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&& other) noexcept;
  ~Listener();

  void stop() noexcept;
  /// Where it listens, IPv4 first; with the port that it got.
  [[nodiscard]] std::vector<Address> const& addresses() const;

 private:
  std::shared_ptr<transport::Door> door_;
};

/// Some threads and all connections that live on them. A connection may outlive its engine, ended.
class Engine {
 public:
  /// `nthreads` 0: by the number of cores. Threads start at once.
  explicit Engine(unsigned nthreads = 0);
  Engine(Engine const&) = delete;
  Engine& operator=(Engine const&) = delete;
  /// Aborts what is open and waits for the threads: not from one of them.
  ~Engine();

  /// The process's own engine, started when it is first asked for and never stopped; a forked child gets a fresh one.
  [[nodiscard]] static Engine& process();

  using Accepted = std::function<void(Connection)>;
  /// `accepted` is called on an engine's thread for every peer that said a good hello.
  ///
  /// @throws Error{failed} with the system's reason where the address cannot be listened on.
  [[nodiscard]] Listener listen(Address const& address, TransportOptions options, Accepted accepted);

  using Connected = std::function<void(Connection, Error const*)>;
  /// Connects to `address`; the addresses of a host name are tried one after the other. Told on an engine's thread:
  /// `disconnected` where nobody answers, `unsupported` where it is no transload peer or one that refuses.
  /// What is returned gives the attempt up, from any thread: `connected` is told `disconnected`, unless it was told before.
  std::function<void()> connect(Address const& address, TransportOptions options, Connected connected);
  /// The same, and waits. Not from an engine's thread.
  [[nodiscard]] Connection connect(Address const& address, TransportOptions options = {});

  [[nodiscard]] unsigned nthreads() const noexcept;
  /// Connections that are open.
  [[nodiscard]] std::size_t nconnections() const;

 private:
  std::shared_ptr<transport::Core> core_;
};

}  // namespace transload
