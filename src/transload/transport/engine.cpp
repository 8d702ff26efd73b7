#include "transload/transport/engine.hpp"

#include <netdb.h>

#include <asio/ip/tcp.hpp>

#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "core.hpp"
#include "transload/base/error.hpp"

namespace transload {

using transport::Core;
using transport::Dialled;
using transport::Door;
using transport::Endpoint;
using transport::Loop;
using transport::Session;

// ── Listener ─────────────────────────────────────────────────────────────────────────────────────────────

Listener& Listener::operator=(Listener&& other) noexcept {
  if (this != &other) {
    stop();
    door_ = std::move(other.door_);
  }
  return *this;
}

Listener::~Listener() { stop(); }

void Listener::stop() noexcept {
  if (door_ != nullptr) door_->close();
}

std::vector<Address> const& Listener::addresses() const {
  static std::vector<Address> const none;
  return door_ != nullptr ? door_->addresses() : none;
}

// ── Engine ───────────────────────────────────────────────────────────────────────────────────────────────

namespace {

/// The addresses of a host given in figures; nothing for a name.
std::vector<Endpoint> endpoints_in_figures(Address const& address) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  std::vector<Endpoint> endpoints;
  if (::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &wanted, &list) != 0) return endpoints;
  for (addrinfo const* one = list; one != nullptr; one = one->ai_next) endpoints.push_back(Endpoint::of(one->ai_addr, one->ai_addrlen));
  ::freeaddrinfo(list);
  return endpoints;
}

/// Somebody's wish for a connection, which may be given up before there is anything to give up: while a name is resolved.
/// Everything but `close` happens on the home loop.
class Attempt final : public transport::Closable, public std::enable_shared_from_this<Attempt> {
 public:
  Attempt(std::shared_ptr<Core> const& core, Loop& home, Engine::Connected connected) : core_(core), home_(home), connected_(std::move(connected)) {}

  void dials(std::weak_ptr<transport::Closable> dial) { dial_ = std::move(dial); }
  [[nodiscard]] bool told() const noexcept { return connected_ == nullptr; }
  /// Tells once: whoever comes later with a connection sees it dropped.
  void tell(Connection connection, Error const* error) {
    if (auto const connected = std::exchange(connected_, {})) connected(std::move(connection), error);
  }
  void close() override {
    if (started_in_ != fork_generation()) return;  // its loop is the parent's
    auto const core = core_.lock();
    if (core == nullptr) return;
    home_.post([self = shared_from_this()] {
      if (auto const dial = self->dial_.lock()) dial->close();
      Error const error(ErrorKind::disconnected, "given up");
      self->tell({}, &error);
    });
  }

 private:
  std::uint64_t const started_in_ = fork_generation();
  std::weak_ptr<Core> const core_;
  Loop& home_;  // while there is a core
  Engine::Connected connected_;
  std::weak_ptr<transport::Closable> dial_;
};

void open_session(std::shared_ptr<Core> const& core, Loop& home, TransportOptions options, Hello mine, Dialled dialled, Attempt& attempt) {
  bool const same_process = dialled.hello.same_process && mine.host.same_process(dialled.hello.host);
  Token const token = dialled.hello.token;
  int const descriptor = dialled.descriptor;
  auto session = std::make_shared<Session>(Session::Setup{.core = core,
                                                          .home = &home,
                                                          .connecting = true,
                                                          .options = std::move(options),
                                                          .mine = std::move(mine),
                                                          .theirs = std::move(dialled.hello),
                                                          .token = token,
                                                          .local = dialled.local,
                                                          .peer = dialled.peer,
                                                          .same_process = same_process});
  try {
    core->remember(session);
    if (same_process) {
      auto const listening = core->find_listening(token);
      expects(listening != nullptr, ErrorKind::disconnected, "closed by the peer");
      Session::link(session, listening);
      transport::close_descriptor(descriptor);
    } else {
      transport::tune_tcp(descriptor, session->options().stall_timeout);
      session->start(descriptor);
    }
  } catch (Error const& error) {
    core->forget(token, session.get());
    transport::close_descriptor(descriptor);
    return attempt.tell({}, &error);
  }
  attempt.tell(Connection(std::move(session)), nullptr);
}

}  // namespace

Engine::Engine(unsigned nthreads) : core_(std::make_shared<Core>(nthreads)) {}

Engine::~Engine() { core_->stop(); }

Engine& Engine::process() {
  static Engine* engine = nullptr;
  static std::uint64_t started_in = 0;
  auto const current = [] { return engine != nullptr && started_in == fork_generation(); };
  {
    std::lock_guard const lock(not_while_forking());
    if (current()) return *engine;
  }
  auto fresh = std::make_unique<Engine>();
  std::lock_guard const lock(not_while_forking());
  if (!current()) {
    engine = fresh.release();  // what a parent had is left alone: its threads are not here
    started_in = fork_generation();
  }
  return *engine;
}

Listener Engine::listen(Address const& address, TransportOptions options, Accepted accepted) {
  auto door = std::make_shared<Door>(core_, std::move(options), std::move(accepted), false);
  door->open(address);
  core_->closes_with_engine(door);
  return Listener(std::move(door));
}

std::function<void()> Engine::connect(Address const& address, TransportOptions options, Connected connected) {
  Loop& home = core_->next_loop();
  auto const attempt = std::make_shared<Attempt>(core_, home, std::move(connected));
  core_->closes_with_engine(attempt);
  Hello hello = core_->hello(options);
  auto const go = [weak = std::weak_ptr(core_), &home, options, hello, attempt](std::vector<Endpoint> endpoints) {
    auto const core = weak.lock();
    if (core == nullptr || attempt->told()) return;
    attempt->dials(transport::dial(*core, home, std::move(endpoints), hello, -1, options.hello_timeout, [=, &home](Dialled dialled, Error const* error) {
      if (error != nullptr) return attempt->tell({}, error);
      open_session(core, home, options, hello, std::move(dialled), *attempt);
    }));
  };
  auto const give_up = [attempt] { attempt->close(); };
  if (auto endpoints = endpoints_in_figures(address); !endpoints.empty()) {
    home.post([go, endpoints = std::move(endpoints)] { go(endpoints); });
    return give_up;
  }
  auto const resolver = std::make_shared<asio::ip::tcp::resolver>(home.context());
  resolver->async_resolve(address.host, std::to_string(address.port),
                          [resolver, address, go, attempt](asio::error_code const& error, asio::ip::tcp::resolver::results_type const& found) {
                            if (error) {
                              Error const told(ErrorKind::disconnected, cat(address.text(), ": ", error.message()));
                              return attempt->tell({}, &told);
                            }
                            std::vector<Endpoint> endpoints;
                            for (auto const& one : found) {
                              auto const endpoint = one.endpoint();
                              endpoints.push_back(Endpoint::of(reinterpret_cast<sockaddr const*>(endpoint.data()), static_cast<socklen_t>(endpoint.size())));
                            }
                            go(std::move(endpoints));
                          });
  return give_up;
}

Connection Engine::connect(Address const& address, TransportOptions options) {
  struct Outcome {
    Connection connection;
    std::optional<ErrorKind> kind;
    std::string what;
  };
  std::promise<Outcome> promise;
  (void)connect(address, std::move(options), [&promise](Connection connection, Error const* error) {
    if (error != nullptr) {
      promise.set_value({{}, error->kind(), error->what()});
    } else {
      promise.set_value({std::move(connection), {}, {}});
    }
  });
  Outcome outcome = promise.get_future().get();
  if (outcome.kind) raise(*outcome.kind, outcome.what);
  return std::move(outcome.connection);
}

unsigned Engine::nthreads() const noexcept { return static_cast<unsigned>(core_->nloops()); }

std::size_t Engine::nconnections() const { return core_->nsessions(); }

namespace {

void receive_from(std::shared_ptr<Session> const& session, Received received);

void tell_next(std::shared_ptr<Session> const& session, Received const& received) {
  Frames frames;
  try {
    if (!session->try_receive(frames, {})) return receive_from(session, received);  // another reader was quicker
  } catch (Error const& error) {
    return received({}, &error);
  }
  received(std::move(frames), nullptr);
}

/// Calls `call`, or whoever is in the midst of doing so on this thread calls it next: who asks for the next message while it is
/// told one would go one level deeper for each message that is there already.
void call_in_turn(std::function<void()> call) {
  thread_local std::deque<std::function<void()>>* waiting = nullptr;
  if (waiting != nullptr) return waiting->push_back(std::move(call));
  struct Turn {
    std::deque<std::function<void()>> calls;
    Turn() { waiting = &calls; }
    ~Turn() { waiting = nullptr; }
  } turn;
  for (call(); !turn.calls.empty(); turn.calls.pop_front()) turn.calls.front()();
}

void receive_from(std::shared_ptr<Session> const& session, Received received) {
  session->when_readable([session, received = std::move(received)] {
    call_in_turn([session, received] { tell_next(session, received); });
  });
}

}  // namespace

// ── Connection ───────────────────────────────────────────────────────────────────────────────────────────

Connection& Connection::operator=(Connection&& other) noexcept {
  if (this != &other) {
    Connection const dropped(std::exchange(session_, std::move(other.session_)));
  }
  return *this;
}

Connection::~Connection() {
  if (session_ == nullptr) return;
  if (session_->foreign()) {
    // Of the process that this one was forked from: its descriptors are closed here, its threads and locks are not ours.
    new std::shared_ptr<Session>(std::move(session_));
    return;
  }
  session_->drop();
}

void Connection::send(Frames frames, Done done, std::span<FrameKind const> kinds) { session_->send(std::move(frames), std::move(done), kinds); }

void Connection::send_copy(std::span<std::span<std::byte const> const> frames, Done done) { session_->send_copy(frames, std::move(done)); }

bool Connection::try_receive(Frames& frames, LandNow const& land) { return session_->try_receive(frames, land); }

bool Connection::reads_device() const { return session_->reads_device(); }

bool Connection::wait_device(std::chrono::microseconds budget) { return session_->wait_device(budget); }

void Connection::when_readable(std::function<void()> call) { session_->when_readable(std::move(call)); }

void Connection::receive(Received received) { receive_from(session_, std::move(received)); }

void Connection::close(Done done) {
  if (session_->foreign()) {
    if (done) done(nullptr);
    return;
  }
  session_->close(std::move(done));
}

void Connection::abort() noexcept {
  if (!session_->foreign()) session_->abort("aborted here");
}

bool Connection::closed() const noexcept { return session_->closed(); }

Address Connection::local_address() const { return session_->local_address(); }
Address Connection::peer_address() const { return session_->peer_address(); }
ConnectionStats Connection::stats() const { return session_->stats(); }

}  // namespace transload
