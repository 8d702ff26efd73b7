#pragma once
/// The engine's inside: loops, sessions by token, doors, dialling. Internal to the room: needs Asio.

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "endpoint.hpp"
#include "loop.hpp"
#include "session.hpp"
#include "transload/transport/engine.hpp"

namespace transload::transport {

/// Something with a descriptor that waits for a peer, and is closed when the engine ends.
class Closable {
 public:
  virtual ~Closable() = default;
  virtual void close() = 0;  ///< from any thread
};

class Core : public std::enable_shared_from_this<Core> {
 public:
  explicit Core(unsigned nthreads);
  ~Core();

  void stop();

  [[nodiscard]] Loop& next_loop();
  [[nodiscard]] Loop& loop_beside(Loop const& home, unsigned steps);
  [[nodiscard]] std::size_t nloops() const noexcept { return loops_.size(); }

  [[nodiscard]] Hello hello(TransportOptions const& options) const;
  /// Abstract name of the socket on which this engine takes shared memory; listens from the first call on. Empty, with a
  /// line for the log, where it cannot.
  [[nodiscard]] std::string local_name(TransportOptions const& options);

  void remember(std::shared_ptr<Session> const& session);
  void forget(Token const& token, Session const* session);
  [[nodiscard]] std::shared_ptr<Session> find_listening(Token const& token);
  [[nodiscard]] std::size_t nsessions();

  void closes_with_engine(std::weak_ptr<Closable> closable);

 private:
  /// Both ends of a connection inside the engine have one token.
  using Key = std::pair<Token, Session const*>;
  [[nodiscard]] static Key key(Token const& token, Session const* session) noexcept { return {token, session}; }

  std::vector<std::unique_ptr<Loop>> loops_;
  Token const process_ = random_token();
  std::mutex mutex_;
  bool stopping_ = false;
  unsigned next_ = 0;
  std::map<Key, std::weak_ptr<Session>> sessions_;
  std::vector<std::weak_ptr<Closable>> closables_;
  std::shared_ptr<Door> local_door_;
  std::string local_name_;
  bool local_failed_ = false;
};

/// A listening socket.
class Door : public Closable, public std::enable_shared_from_this<Door> {
 public:
  Door(std::shared_ptr<Core> core, TransportOptions options, Engine::Accepted accepted, bool local);
  ~Door() override;

  /// @throws Error{failed} where the address cannot be listened on.
  void open(Address const& address);
  void open_local(std::string const& name);
  void close() override;
  [[nodiscard]] std::vector<Address> const& addresses() const noexcept { return addresses_; }

  [[nodiscard]] bool open_still() const noexcept { return !closed_.load(); }
  [[nodiscard]] std::shared_ptr<Core> const& core() const noexcept { return core_; }
  [[nodiscard]] TransportOptions const& options() const noexcept { return options_; }
  [[nodiscard]] bool local() const noexcept { return local_; }
  void accepted(Connection connection) const { accepted_(std::move(connection)); }
  void log(std::string const& line) const {
    if (options_.log) options_.log(line);
  }

 private:
  struct Leaf;  // one socket
  void add(Endpoint const& endpoint);
  void accept_later(std::shared_ptr<Leaf> const& leaf);
  void accept(std::shared_ptr<Leaf> const& leaf);

  std::shared_ptr<Core> core_;
  TransportOptions options_;
  Engine::Accepted accepted_;
  bool local_;
  std::atomic<bool> closed_{false};
  std::vector<std::shared_ptr<Leaf>> leaves_;
  std::vector<Address> addresses_;
};

/// What came of dialling: a connected descriptor on which the other end said `hello`.
struct Dialled {
  int descriptor = -1;
  Hello hello;
  Endpoint local;
  Endpoint peer;
};

/// Connects to one of `endpoints`, tried in order, says `hello`, passes `descriptor` along (-1: none; it stays the
/// caller's until told), and hears the other end's hello. Told once, on `loop`; everything within `timeout`.
/// Closing what is returned gives it up.
std::weak_ptr<Closable> dial(Core& core, Loop& loop, std::vector<Endpoint> endpoints, Hello const& hello, int descriptor, std::chrono::milliseconds timeout,
                             std::function<void(Dialled, Error const*)> told);

/// Sets what a TCP socket of this room has: no delay, and the kernel's own timeouts derived from `timeout`.
void tune_tcp(int descriptor, std::chrono::milliseconds timeout) noexcept;

}  // namespace transload::transport
