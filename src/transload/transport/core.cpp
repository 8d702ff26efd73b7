#include "core.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "transload/base/error.hpp"
#include "transload/base/limits.hpp"
#include "wire.hpp"

namespace transload::transport {

namespace {

unsigned ncores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
  return std::max(1u, std::thread::hardware_concurrency());
}

// Measured on loopback: docs/transport.md, "How many streams".
unsigned streams_for(int asked, bool local) {
  unsigned const n = asked >= 0 ? static_cast<unsigned>(asked) : local ? std::clamp(ncores() / 4, 1u, 4u) : ncores() >= 8 ? std::min(ncores() * 3 / 4, 12u) : 0;
  return std::min(n, limits::streams);
}

std::string system_text(std::string_view what) { return cat(what, ": ", std::strerror(errno)); }

int open_socket(int family) {
  int const fd = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  expects(fd >= 0, ErrorKind::exhausted, [] { return system_text("socket"); });
  return fd;
}

/// Whether the process behind a connected Unix socket is of our user.
bool of_our_user(int fd) {
  ucred peer{};
  socklen_t n = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.uid == ::geteuid();
}

// ── one hello, read from a descriptor ────────────────────────────────────────────────────────────────────

/// Reads one hello and nothing behind it; takes a descriptor that comes along.
class HelloReader {
 public:
  HelloReader() = default;
  HelloReader(HelloReader const&) = delete;
  ~HelloReader() {
    if (passed_ >= 0) ::close(passed_);
  }

  /// Reads what is there. True: the hello is whole.
  ///
  /// @throws Error{malformed}; Error{disconnected} where the stream ends.
  bool read(int fd) {
    for (;;) {
      std::size_t const wanted = have_ < hello_head_nbytes ? hello_head_nbytes : hello_head_nbytes + nbytes_;
      if (have_ == wanted) return true;
      bytes_.resize(wanted);
      iovec into{bytes_.data() + have_, wanted - have_};
      alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(4 * sizeof(int))> control{};
      msghdr message{};
      message.msg_iov = &into;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      ssize_t const n = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
      expects(n >= 0, ErrorKind::disconnected, [] { return system_text("the peer is gone before its hello"); });
      take_descriptors(message);
      expects(n > 0, ErrorKind::disconnected, "the peer is gone before its hello");
      have_ += static_cast<std::size_t>(n);
      auto const head = std::span<std::byte const>(bytes_).first(std::min(have_, hello_head_nbytes));
      expects(may_be_hello(head), ErrorKind::malformed, [&] { return cat("not a transload peer; its first bytes look like ", looks_like(head)); });
      if (have_ == hello_head_nbytes) nbytes_ = hello_nbytes(head);
    }
  }
  [[nodiscard]] Hello hello() const { return parse_hello(std::span<std::byte const>(bytes_).subspan(hello_head_nbytes)); }
  [[nodiscard]] int take_passed() noexcept { return std::exchange(passed_, -1); }

 private:
  void take_descriptors(msghdr& message) {
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
      if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
      std::size_t const n = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < n; ++i) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof fd);
        if (passed_ < 0) {
          passed_ = fd;
        } else {
          ::close(fd);  // one is asked for
        }
      }
    }
  }

  std::vector<std::byte> bytes_;
  std::size_t have_ = 0;
  std::size_t nbytes_ = 0;
  int passed_ = -1;
};

/// Sends a hello on a fresh connection, whose buffer has room for it.
void say_hello(int fd, Hello const& hello, int passed = -1) {
  std::vector<std::byte> const bytes = pack_hello(hello);
  iovec from{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &from;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  if (passed >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &passed, sizeof passed);
  }
  ssize_t const n = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  expects(n == static_cast<ssize_t>(bytes.size()), ErrorKind::disconnected, [&] { return n < 0 ? system_text("the hello cannot be sent") : "the hello cannot be sent"; });
}

// ── dialling ─────────────────────────────────────────────────────────────────────────────────────────────

class Dial final : public Closable, public std::enable_shared_from_this<Dial> {
 public:
  Dial(Loop& loop, std::vector<Endpoint> endpoints, Hello hello, int passed, std::function<void(Dialled, Error const*)> told)
      : loop_(loop), timer_(loop.context()), endpoints_(std::move(endpoints)), hello_(std::move(hello)), passed_(passed), told_(std::move(told)) {}

  void start(std::chrono::milliseconds timeout) {
    timer_.expires_after(timeout);
    timer_.async_wait([weak = weak_from_this(), timeout](asio::error_code const& error) {
      auto const self = weak.lock();
      if (!error && self != nullptr) self->finish(cat("no answer within ", timeout.count(), " ms"));
    });
    next();
  }
  void close() override {
    loop_.post([self = shared_from_this()] { self->finish("given up"); });
  }

 private:
  void next() {
    wire_.reset();
    if (at_ == endpoints_.size()) return finish(why_.empty() ? "the host has no address" : why_);
    Endpoint const& endpoint = endpoints_[at_++];
    try {
      wire_ = std::make_unique<SocketWire>(loop_, open_socket(endpoint.family()));
    } catch (Error const& error) {
      return finish(error.what(), error.kind());
    }
    if (::connect(wire_->descriptor(), endpoint.get(), endpoint.nbytes) == 0) return connected();
    // A local socket whose backlog is full says EAGAIN, and never becomes writable.
    if (errno != EINPROGRESS) return failed(errno);
    wire_->when_writable([self = shared_from_this()] {
      if (self->wire_ == nullptr) return;  // given up while this call was on its way
      int error = 0;
      socklen_t n = sizeof error;
      ::getsockopt(self->wire_->descriptor(), SOL_SOCKET, SO_ERROR, &error, &n);
      error != 0 ? self->failed(error) : self->connected();
    });
  }
  void failed(int error) {
    Address const address = endpoints_[at_ - 1].as_address();
    why_ = cat(address.host.empty() ? "a local socket" : address.text(), ": ", std::strerror(error));
    loop_.post([self = shared_from_this()] {
      if (self->told_) self->next();
    });
  }
  void connected() {
    try {
      int const fd = wire_->descriptor();
      expects(endpoints_[at_ - 1].family() != AF_UNIX || of_our_user(fd), ErrorKind::unsupported, "the local socket belongs to another user");
      int const one = 1;
      if (endpoints_[at_ - 1].family() != AF_UNIX) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      say_hello(fd, hello_, passed_);
    } catch (Error const& error) {
      return finish(error.what(), error.kind());
    }
    hear();
  }
  void hear() {
    wire_->when_readable([self = shared_from_this()] {
      if (self->wire_ == nullptr) return;  // given up while this call was on its way
      try {
        if (!self->reader_.read(self->wire_->descriptor())) return self->hear();
        Dialled dialled;
        dialled.hello = self->reader_.hello();
        expects(dialled.hello.refused.empty(), ErrorKind::unsupported, [&] { return cat("refused by the peer: ", dialled.hello.refused); });
        (void)common_version(self->hello_, dialled.hello);
        dialled.local = Endpoint::here(self->wire_->descriptor());
        dialled.peer = Endpoint::there(self->wire_->descriptor());
        dialled.descriptor = self->wire_->release();
        self->timer_.cancel();
        if (auto const told = std::exchange(self->told_, {})) told(std::move(dialled), nullptr);
      } catch (Error const& error) {
        // Whoever answers in another language will not learn ours.
        self->finish(error.what(), error.kind() == ErrorKind::malformed ? ErrorKind::unsupported : error.kind());
      }
    });
  }
  void finish(std::string const& why, ErrorKind kind = ErrorKind::disconnected) {
    timer_.cancel();
    wire_.reset();
    Error const error(kind, why);
    if (auto const told = std::exchange(told_, {})) told({}, &error);
  }

  Loop& loop_;
  asio::steady_timer timer_;
  std::vector<Endpoint> endpoints_;
  Hello hello_;
  int passed_;
  std::function<void(Dialled, Error const*)> told_;
  std::size_t at_ = 0;
  std::string why_;
  std::unique_ptr<SocketWire> wire_;
  HelloReader reader_;
};

// ── greeting ─────────────────────────────────────────────────────────────────────────────────────────────

/// A connection that was accepted, until its hello is read and answered.
class Greeting final : public Closable, public std::enable_shared_from_this<Greeting> {
 public:
  Greeting(std::shared_ptr<Door> door, Loop& loop, int descriptor)
      : door_(std::move(door)), loop_(loop), timer_(loop.context()), wire_(std::make_unique<SocketWire>(loop, descriptor)) {}

  void post_start() {
    loop_.post([self = shared_from_this()] { self->start(); });
  }
  void close() override {
    loop_.post([self = shared_from_this()] { self->done(); });
  }

 private:
  void start() {
    timer_.expires_after(door_->options().hello_timeout);
    timer_.async_wait([weak = weak_from_this()](asio::error_code const& error) {
      auto const self = weak.lock();
      if (!error && self != nullptr) self->refuse("no hello within the time for it", false);
    });
    hear();
  }
  void hear() {
    if (wire_ == nullptr) return;
    wire_->when_readable([self = shared_from_this()] {
      if (self->wire_ == nullptr) return;
      try {
        if (!self->reader_.read(self->wire_->descriptor())) return self->hear();
        self->answer(self->reader_.hello());
      } catch (Error const& error) {
        self->refuse(error.what(), false);
      }
    });
  }

  void answer(Hello const& theirs) {
    if (!door_->open_still()) return done();
    Core& core = *door_->core();
    Hello mine = core.hello(door_->options());
    try {
      (void)common_version(mine, theirs);
    } catch (Error const& error) {
      return refuse(error.what(), true);
    }
    expects(theirs.refused.empty(), ErrorKind::unsupported, [&] { return theirs.refused; });
    if (theirs.stream > 0) return answer_stream(theirs);
    if (door_->local()) return refuse("a connection begins over TCP", true);
    int const fd = wire_->descriptor();
    bool const same_process = mine.same_process && theirs.same_process && mine.host.same_process(theirs.host);
    mine.token = random_token();
    mine.same_process = same_process;
    if (mine.local_streams > 0 && mine.host.apart_from(theirs.host).empty()) {
      mine.local_name = core.local_name(door_->options());
    }
    auto session = std::make_shared<Session>(Session::Setup{.core = door_->core(),
                                                            .home = &loop_,
                                                            .connecting = false,
                                                            .options = door_->options(),
                                                            .mine = mine,
                                                            .theirs = theirs,
                                                            .token = mine.token,
                                                            .local = Endpoint::here(fd),
                                                            .peer = Endpoint::there(fd),
                                                            .same_process = same_process});
    core.remember(session);
    try {
      say_hello(fd, mine);
    } catch (Error const&) {  // the peer is gone
      core.forget(session->token(), session.get());
      throw;
    }
    tune_tcp(fd, door_->options().stall_timeout);
    session->start(wire_->release());
    auto const door = door_;
    done();
    door->accepted(Connection(std::move(session)));
  }

  void answer_stream(Hello const& theirs) {
    Core& core = *door_->core();
    bool const local = door_->local();
    auto const session = core.find_listening(theirs.token);
    if (session == nullptr) return refuse("no connection has this token", true);
    Hello mine = core.hello(door_->options());
    mine.token = theirs.token;
    mine.stream = theirs.stream;
    std::shared_ptr<RingMemory> memory;
    if (local) {
      int const passed = reader_.take_passed();
      expects(passed >= 0, ErrorKind::malformed, "a local stream without shared memory");
      memory = std::make_shared<RingMemory>(RingMemory::open(passed));
    } else {
      tune_tcp(wire_->descriptor(), door_->options().stall_timeout);
    }
    std::shared_ptr<Lane> lane;
    if (std::string const why_not = session->join(theirs.stream, local, lane); !why_not.empty()) return refuse(why_not, true);
    say_hello(wire_->descriptor(), mine);
    lane->attach([fd = wire_->release(), memory](Loop& loop) -> std::shared_ptr<Wire> {
      if (memory == nullptr) return std::make_shared<SocketWire>(loop, fd);
      auto wire = std::make_shared<RingWire>(loop, fd, std::move(*memory), false);
      wire->start();
      return wire;
    });
    done();
  }

  /// `answered`: the peer speaks our language and is told why.
  void refuse(std::string const& why, bool answered) {
    if (wire_ == nullptr) return;
    door_->log(cat("refused ", Endpoint::there(wire_->descriptor()).as_address().text(), ": ", why));
    if (answered) {
      try {
        Hello hello;
        hello.software = door_->core()->hello(door_->options()).software;
        hello.refused = why;
        say_hello(wire_->descriptor(), hello);
      } catch (Error const&) {  // it is gone; it was told or not
      }
    }
    done();
  }
  void done() {
    timer_.cancel();
    wire_.reset();
  }

  std::shared_ptr<Door> door_;
  Loop& loop_;
  asio::steady_timer timer_;
  std::unique_ptr<SocketWire> wire_;
  HelloReader reader_;
};

}  // namespace

std::weak_ptr<Closable> dial(Core& core, Loop& loop, std::vector<Endpoint> endpoints, Hello const& hello, int descriptor, std::chrono::milliseconds timeout,
                             std::function<void(Dialled, Error const*)> told) {
  auto const one = std::make_shared<Dial>(loop, std::move(endpoints), hello, descriptor, std::move(told));
  core.closes_with_engine(one);
  loop.post([one, timeout] { one->start(timeout); });
  return one;
}

void tune_tcp(int descriptor, std::chrono::milliseconds timeout) noexcept {
  auto const set = [&](int level, int name, int value) { ::setsockopt(descriptor, level, name, &value, sizeof value); };
  // As Dask's tcp:// has them: ten probes, a quarter of the time before the first.
  int const nprobes = 10;
  auto const seconds = static_cast<int>(std::clamp<std::int64_t>(timeout.count() / 1000, nprobes + 1, 86'400));  // TCP_KEEPIDLE is 32 767 s at most
  int const interval = std::max(1, (seconds - std::max(2, seconds / 4)) / nprobes);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, nprobes);
  set(IPPROTO_TCP, TCP_KEEPIDLE, seconds - interval * nprobes);
  set(IPPROTO_TCP, TCP_KEEPINTVL, interval);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, seconds * 1000);
}

// ── Door ─────────────────────────────────────────────────────────────────────────────────────────────────

struct Door::Leaf {
  Leaf(Loop& loop, int descriptor) : loop(loop), wire(loop, descriptor), timer(loop.context()) {}
  Loop& loop;
  SocketWire wire;  // only waits
  asio::steady_timer timer;
  bool starving = false;  // out of descriptors or memory, which was said
};

Door::Door(std::shared_ptr<Core> core, TransportOptions options, Engine::Accepted accepted, bool local)
    : core_(std::move(core)), options_(std::move(options)), accepted_(std::move(accepted)), local_(local) {}

Door::~Door() = default;

void Door::add(Endpoint const& endpoint) {
  int const fd = open_socket(endpoint.family());
  int const one = 1;
  if (endpoint.family() != AF_UNIX) ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (endpoint.family() == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
  if (::bind(fd, endpoint.get(), endpoint.nbytes) != 0 || ::listen(fd, options_.backlog) != 0) {
    int const error = errno;
    ::close(fd);
    errno = error;
    raise(ErrorKind::failed, system_text(local_ ? std::string("a local socket") : cat("listen on ", endpoint.as_address().text())));
  }
  leaves_.push_back(std::make_shared<Leaf>(core_->next_loop(), fd));
  if (!local_) addresses_.push_back(Endpoint::here(fd).as_address());
}

void Door::open(Address const& address) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  int const error = ::getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(), std::to_string(address.port).c_str(), &wanted, &list);
  expects(error == 0, ErrorKind::failed, [&] { return cat("listen on ", address.text(), ": ", ::gai_strerror(error)); });
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> const freed(list, ::freeaddrinfo);
  std::vector<Endpoint> endpoints;
  for (int const family : {AF_INET, AF_INET6}) {
    for (addrinfo const* one = list; one != nullptr; one = one->ai_next) {
      if (one->ai_family == family) endpoints.push_back(Endpoint::of(one->ai_addr, one->ai_addrlen));
    }
  }
  // With port 0 every address takes the port that the first one got; where another has that already, all begin anew.
  for (int tries = 5;; --tries) {
    try {
      for (Endpoint endpoint : endpoints) {
        if (address.port == 0 && !addresses_.empty()) {
          auto const port = htons(addresses_.front().port);
          if (endpoint.family() == AF_INET) reinterpret_cast<sockaddr_in&>(endpoint.address).sin_port = port;
          if (endpoint.family() == AF_INET6) reinterpret_cast<sockaddr_in6&>(endpoint.address).sin6_port = port;
        }
        try {
          add(endpoint);
        } catch (Error const&) {
          // A host without IPv6 may still have a name for it.
          bool const absent = errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL;
          if (!absent || (addresses_.empty() && &endpoint == &endpoints.back())) throw;
        }
      }
      break;
    } catch (Error const&) {
      bool const taken = errno == EADDRINUSE;
      leaves_.clear();
      addresses_.clear();
      if (address.port != 0 || !taken || tries == 1) throw;
    }
  }
  expects(!leaves_.empty(), ErrorKind::failed, [&] { return cat("listen on ", address.text(), ": the host has no address here"); });
  for (auto const& leaf : leaves_) accept_later(leaf);
}

void Door::open_local(std::string const& name) {
  add(Endpoint::local(name));
  accept_later(leaves_.front());
}

void Door::close() {
  if (closed_.exchange(true)) return;
  for (auto const& leaf : leaves_) {
    leaf->wire.shut();  // from here on the address is free for another listener
    leaf->loop.post([leaf] {
      leaf->timer.cancel();
      leaf->wire.close();
    });
  }
}

void Door::accept_later(std::shared_ptr<Leaf> const& leaf) {
  leaf->loop.post([self = shared_from_this(), leaf] {
    if (self->open_still()) leaf->wire.when_readable([self, leaf] { self->accept(leaf); });
  });
}

void Door::accept(std::shared_ptr<Leaf> const& leaf) {
  while (open_still()) {
    int const fd = ::accept4(leaf->wire.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return accept_later(leaf);
      if (!open_still()) return;  // closed meanwhile
      // Out of descriptors or memory: those that wait are taken when there is room again.
      if (!std::exchange(leaf->starving, true)) log(system_text("accept"));
      leaf->timer.expires_after(std::chrono::milliseconds(100));
      leaf->timer.async_wait([self = shared_from_this(), leaf](asio::error_code const& error) {
        if (!error) self->accept(leaf);
      });
      return;
    }
    leaf->starving = false;
    if (local_ && !of_our_user(fd)) {
      log("refused a local peer: it is another user's");
      ::close(fd);
      continue;
    }
    auto const greeting = std::make_shared<Greeting>(shared_from_this(), core_->next_loop(), fd);
    core_->closes_with_engine(greeting);
    greeting->post_start();
  }
}

// ── Core ─────────────────────────────────────────────────────────────────────────────────────────────────

Core::Core(unsigned nthreads) {
  (void)HostIdentity::of_this_process();  // watches forks from here on
  unsigned const n = nthreads > 0 ? nthreads : std::clamp(ncores() * 3 / 4, 2u, 12u);
  try {
    for (unsigned i = 0; i < n; ++i) loops_.push_back(std::make_unique<Loop>(i));
  } catch (std::system_error const& error) {
    raise(ErrorKind::exhausted, cat("no descriptors for the engine: ", error.what()));
  }
}

Core::~Core() = default;

void Core::stop() {
  std::vector<std::shared_ptr<Session>> sessions;
  std::vector<std::weak_ptr<Closable>> closables;
  std::shared_ptr<Door> door;
  {
    std::lock_guard const lock(mutex_);
    stopping_ = true;
    for (auto const& [token, weak] : sessions_) {
      if (auto session = weak.lock()) sessions.push_back(std::move(session));
    }
    closables.swap(closables_);
    door.swap(local_door_);
  }
  if (door != nullptr) door->close();
  for (auto const& weak : closables) {
    if (auto const one = weak.lock()) one->close();
  }
  for (auto const& session : sessions) session->abort("the engine has ended");
  // What closing posts may post again, from loop to loop.
  for (int i = 0; i < 3; ++i) {
    for (auto const& loop : loops_) loop->barrier();
  }
  for (auto const& loop : loops_) loop->stop();
}

Loop& Core::next_loop() {
  std::lock_guard const lock(mutex_);
  return *loops_[next_++ % loops_.size()];
}

Loop& Core::loop_beside(Loop const& home, unsigned steps) {
  std::size_t at = 0;
  while (loops_[at].get() != &home) ++at;
  return *loops_[(at + steps) % loops_.size()];
}

Hello Core::hello(TransportOptions const& options) const {
  Hello hello;
  hello.software = "transload " TRANSLOAD_VERSION;
  hello.host = HostIdentity::of_this_process();
  hello.host.process = process_;  // the engine is what must be the same
  hello.nframes_most = std::min<std::uint64_t>(options.nframes_most, limits::frames_told);
  hello.message_nbytes_most = std::min(options.message_nbytes_most, limits::payload_nbytes);
  hello.window_nbytes = std::min<std::uint64_t>(options.window_nbytes, limits::window_nbytes);
  hello.streams = streams_for(options.streams, false);
  hello.local_streams = streams_for(options.local_streams, true);
  hello.same_process = options.same_process;
  bool const device = options.device_resource != nullptr || (options.landing && options.landing_on_device);
  hello.kinds = static_cast<unsigned>(options.device_resource != nullptr ? FrameKind::inlined : device ? FrameKind::device : options.landing ? FrameKind::object : FrameKind::plain);
  hello.exports = device && options.exports;
  return hello;
}

std::string Core::local_name(TransportOptions const& options) {
  std::unique_lock lock(mutex_);
  if (!local_name_.empty() || local_failed_ || stopping_) return local_name_;
  std::string const name = cat("transload/", to_hex(random_token()));
  lock.unlock();
  TransportOptions local;
  local.hello_timeout = options.hello_timeout;
  local.log = options.log;
  auto const door = std::make_shared<Door>(shared_from_this(), local, [](Connection) {}, true);
  try {
    door->open_local(name);
  } catch (Error const& error) {
    if (options.log) options.log(cat("no shared memory: ", error.what()));
    lock.lock();
    local_failed_ = error.kind() != ErrorKind::exhausted;  // descriptors may be there for the next connection
    return {};
  }
  lock.lock();
  if (local_name_.empty()) {
    local_name_ = name;
    local_door_ = door;
  } else {
    door->close();  // two asked at once
  }
  return local_name_;
}

void Core::remember(std::shared_ptr<Session> const& session) {
  std::lock_guard const lock(mutex_);
  expects(!stopping_, ErrorKind::disconnected, "the engine has ended");
  sessions_[key(session->token(), session.get())] = session;
}

void Core::forget(Token const& token, Session const* session) {
  std::lock_guard const lock(mutex_);
  sessions_.erase(key(token, session));
}

std::shared_ptr<Session> Core::find_listening(Token const& token) {
  std::lock_guard const lock(mutex_);
  for (auto at = sessions_.lower_bound({token, nullptr}); at != sessions_.end() && at->first.first == token; ++at) {
    auto session = at->second.lock();
    if (session != nullptr && !session->connecting()) return session;
  }
  return nullptr;
}

std::size_t Core::nsessions() {
  std::lock_guard const lock(mutex_);
  return sessions_.size();
}

void Core::closes_with_engine(std::weak_ptr<Closable> closable) {
  std::lock_guard const lock(mutex_);
  if (closables_.size() >= 64 && closables_.size() == closables_.capacity()) {
    std::erase_if(closables_, [](auto const& weak) { return weak.expired(); });
  }
  closables_.push_back(std::move(closable));
}

}  // namespace transload::transport
