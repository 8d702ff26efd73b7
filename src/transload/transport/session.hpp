#pragma once
/// What both ends of a connection keep: its queue, its credit, its streams. Internal to the room: needs Asio.
///
/// Threads. The first stream is read on the session's home loop; it is written by whoever finds nobody writing: the
/// caller of `send` for a few bytes, else the home loop. Each further stream (`Lane`) lives on a loop of its own. What
/// they share lies behind `mutex_`, which is held for moments: never while bytes move, never while somebody's code is called.

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "endpoint.hpp"
#include "loop.hpp"
#include "ring.hpp"
#include "transload/memory/ipc.hpp"
#include "transload/memory/ring.hpp"
#include "transload/transport/connection.hpp"
#include "transload/transport/hello.hpp"
#include "transload/transport/options.hpp"
#include "transload/transport/record.hpp"
#include "transload/transport/share.hpp"
#include "wire.hpp"

namespace transload::transport {

class Core;
class Session;

using Clock = std::chrono::steady_clock;

/// Calls to be made once no lock is held.
class Calls {
 public:
  Calls() = default;
  Calls(Calls const&) = delete;
  ~Calls() {
    for (auto& call : list_) call();
  }
  template <class F>
  void add(F&& call) {
    list_.emplace_back(std::forward<F>(call));
  }

 private:
  std::vector<std::function<void()>> list_;
};

/// A message on its way out. Its bytes are let go with it.
struct Outgoing {
  std::uint64_t number = 0;
  std::vector<std::byte> lead;  ///< the record, and behind it the small frames where they were copied
  std::size_t record_nbytes = 0;
  std::vector<std::byte> body;  ///< the `body` record of a message that was announced
  Frames frames;
  bool small_in_lead = false;
  std::uint64_t nbytes = 0;
  std::uint64_t body_nbytes = 0;    ///< without the device frames
  std::uint64_t large_nbytes = 0;   ///< of the body
  std::uint64_t device_nbytes = 0;
  bool device = false;              ///< it has device frames, which the peer fetches
  bool exported = false;            ///< it may read them where they lie
  bool asked = false;               ///< it asked for them, or has read them
  Frames staged;                    ///< device frames that were brought to host memory, where there are no further streams
  bool announced = false;
  bool started = false;
  unsigned parts = 0;  ///< streams that have not written all of it yet; the device frames, until the peer has asked for them
  Clock::time_point since;

  [[nodiscard]] bool waits_for_peer() const noexcept { return device && !asked; }
};

/// A message on its way in.
struct Incoming {
  Frames frames;
  std::uint64_t number = 0;
  std::uint64_t nbytes = 0;
  std::uint64_t body_nbytes = 0;    ///< without the device frames
  unsigned parts = 0;
  Pieces first;  ///< what comes on the first stream
  Clock::time_point since;

  /// How far its device frames are.
  enum class Device { none, wanted, landing, landed, asked, coming };
  Device device = Device::none;
  std::vector<std::size_t> device_frames;  ///< their places among the frames
  std::vector<std::uint64_t> device_sizes;
  std::vector<ExportedMemory> exported;
  std::unique_ptr<Pull> pull;  ///< ends before the frames do
  std::vector<std::size_t> inlined;  ///< frames that belong on a device and came with the body
  std::string why_fetched;     ///< and not read where they lie

  /// Whether bytes are due from the peer.
  [[nodiscard]] bool waits_for_peer() const noexcept {
    bool const ours = device == Device::wanted || device == Device::landing || device == Device::landed;
    return parts > (ours ? 1U : 0U) && pull == nullptr;
  }
};

/// What one further stream carries of a message: pieces of host memory, or of a GPU's by way of a staging ring.
class Part {
 public:
  explicit Part(Pieces pieces) : pieces_(std::move(pieces)) {}
  Part(Pieces pieces, int device, bool outward) : pieces_(std::move(pieces)), staged_(true), device_(device), outward_(outward) {}

  /// Host memory to be written out or filled next. Of a GPU's it may wait for a short copy, and throw what that throws.
  [[nodiscard]] std::span<iovec const> left();
  void advance(std::size_t nbytes);
  [[nodiscard]] bool done() const noexcept { return ring_ != nullptr ? ring_->done() : pieces_.done(); }

 private:
  Pieces pieces_;
  bool staged_ = false;
  int device_ = 0;
  bool outward_ = false;
  std::unique_ptr<StagingRing> ring_;  ///< made by the loop that moves it
  iovec at_{};
};

/// A further stream. Everything happens on its loop, except what says otherwise.
class Lane : public std::enable_shared_from_this<Lane> {
 public:
  using MakeWire = std::function<std::shared_ptr<Wire>(Loop&)>;

  Lane(Loop& loop, std::weak_ptr<Session> session) : loop_(loop), session_(std::move(session)) {}

  [[nodiscard]] Loop& loop() const noexcept { return loop_; }

  // From any thread:
  void attach(MakeWire make);  ///< `make` is called on the loop
  void send(std::shared_ptr<Outgoing> message, Part part);
  void receive(std::shared_ptr<Incoming> message, Part part);
  void close();
  void idle();

 private:
  void write();
  void read();
  /// Of the two the part goes first: its copies end before the message's memory does.
  template <typename Message>
  using Waiting = std::deque<std::pair<std::shared_ptr<Message>, std::unique_ptr<Part>>>;
  /// Moves what waits in one direction, until the wire is not able to, or others on the loop want a turn.
  template <typename Message>
  void move(Waiting<Message>& waiting, bool& moving, Moved (Wire::*step)(std::span<iovec const>),
            void (Wire::*when_able)(std::function<void()>), void (Lane::*again)(), void (Session::*part_done)(std::shared_ptr<Message>, std::uint64_t));
  void broken(Moved const& moved);

  Loop& loop_;
  std::weak_ptr<Session> session_;
  std::shared_ptr<Wire> wire_;
  bool closed_ = false;
  bool writing_ = false;
  bool reading_ = false;
  Waiting<Outgoing> out_;
  Waiting<Incoming> in_;
};

class Session final : public Watched, public std::enable_shared_from_this<Session> {
 public:
  struct Setup {
    std::shared_ptr<Core> core;
    Loop* home = nullptr;
    bool connecting = false;
    TransportOptions options;
    Hello mine;
    Hello theirs;
    Token token{};
    Endpoint local;
    Endpoint peer;
    bool same_process = false;  ///< the other end is in this engine: nothing is sent before `link`
  };
  explicit Session(Setup setup);

  /// Begins to read and write on `descriptor`.
  void start(int descriptor);
  /// Joins the two ends of a connection inside one engine: frames go by reference from now on.
  static void link(std::shared_ptr<Session> const& connecting, std::shared_ptr<Session> const& listening);
  /// Takes a further stream of the peer's. Returns an empty text, or why it is refused.
  [[nodiscard]] std::string join(unsigned stream, bool local, std::shared_ptr<Lane>& lane);

  void send(Frames frames, Done done, std::span<FrameKind const> kinds);
  void send_copy(std::span<std::span<std::byte const> const> frames, Done done);
  [[nodiscard]] bool try_receive(Frames& frames, LandNow const& land);
  [[nodiscard]] bool reads_device() const;
  bool wait_device(std::chrono::microseconds budget);
  void when_readable(std::function<void()> call);
  void close(Done done);
  void abort(std::string_view why) noexcept;
  void drop() noexcept;  ///< nobody uses it any more
  [[nodiscard]] bool closed() const noexcept;
  [[nodiscard]] ConnectionStats stats() const;
  [[nodiscard]] Address local_address() const { return setup_.local.as_address(); }
  [[nodiscard]] Address peer_address() const { return setup_.peer.as_address(); }
  [[nodiscard]] Token const& token() const noexcept { return setup_.token; }
  [[nodiscard]] TransportOptions const& options() const noexcept { return setup_.options; }
  [[nodiscard]] bool connecting() const noexcept { return setup_.connecting; }
  [[nodiscard]] bool foreign() const noexcept { return generation_ != fork_generation(); }  ///< made before a fork

  void tick(Clock::time_point now) override;
  void fail(ErrorKind kind, std::string text);

  // For the lanes, on any loop:
  void moved() noexcept { progress_.fetch_add(1, std::memory_order_relaxed); }
  void part_written(std::shared_ptr<Outgoing> message, std::uint64_t ncopied);
  void part_read(std::shared_ptr<Incoming> message, std::uint64_t ncopied);
  void lane_broken(Lane const* lane, std::string const& what);

 private:
  using Lock = std::unique_lock<std::mutex>;
  enum class Lanes { none, asked, opening, ready, failed };

  // ── out ──
  [[nodiscard]] std::shared_ptr<Outgoing> prepare(std::vector<std::uint64_t> sizes, std::vector<FrameKind> kinds, std::vector<ExportedMemory> exported = {}) const;
  void enqueue(std::shared_ptr<Outgoing> message, Done done);
  void pump_from(Lock& lock);
  void pump(bool on_caller);
  void pump_when_writable();
  [[nodiscard]] bool compose(Lock const& lock);
  void begin(Lock const& lock, std::shared_ptr<Outgoing> const& message);
  void leave_pump(Lock& lock, bool on_caller, bool done);
  void settle(Lock const& lock, std::vector<std::shared_ptr<Outgoing>>& released, Calls& calls);
  void handed_on(Lock const& lock, std::uint64_t nbytes, Calls& calls);
  [[nodiscard]] std::uint64_t credit(Lock const&) const noexcept { return granted_to_us_ - started_nbytes_; }
  [[nodiscard]] Error gone(Lock const& lock) const;

  // ── in ──
  void arrive(Outgoing message);  // from a linked end
  void taken_by_peer(std::uint64_t nbytes);
  void read();
  [[nodiscard]] bool read_some();
  void read_rest(std::string const& why);
  void read_later();
  void take_bytes(std::span<std::byte const> bytes);
  void take_record(Record record);
  void begin_body(Record message, unsigned nstreams, std::uint32_t chunk_nbytes, Frames frames);
  void grant_pending();
  void landed(std::uint64_t number, Frames frames, std::optional<Error> const& error);
  void deliver(Lock const& lock, Calls& calls);
  void end_of_stream(Moved const& moved);

  // ── frames in a GPU's memory: session_device.cpp ──
  void bring_to_host(Frames& frames);
  [[nodiscard]] bool may_inline(Frames const& frames) const;
  void inline_device(Frames& frames, std::vector<FrameKind>& kinds);
  void land_inlined(Frames& frames, std::vector<std::size_t> const& inlined);
  [[nodiscard]] std::vector<ExportedMemory> exports_of(Frames const& frames);
  /// The way that device frames go in one direction, and why.
  struct DeviceWay {
    char const* direction;
    std::string path = {};
    std::string reason = {};
  };
  void take_way(Lock const& lock, DeviceWay& way, std::string path, std::string reason);
  [[nodiscard]] bool ready(Lock const& lock, std::shared_ptr<Outgoing> const& message);
  [[nodiscard]] std::shared_ptr<Outgoing> unfetched(Lock const& lock, std::uint64_t number) const;
  void take_fetch(Record const& record);
  void take_fetched(Record const& record);
  void send_fetched(Lock const& lock);
  void stage(std::shared_ptr<Outgoing> const& message);
  [[nodiscard]] bool offers(Lock const& lock) const;
  void fetch_when_usable(std::shared_ptr<Incoming> const& message);
  [[nodiscard]] bool look_at_pull(std::chrono::microseconds patience);
  void land_now(std::shared_ptr<Incoming> const& message, LandNow const& land);
  [[nodiscard]] bool place(std::shared_ptr<Incoming> const& message, Frames frames);
  [[nodiscard]] std::unique_ptr<Pull> begin_pull(std::shared_ptr<Incoming> const& message, std::string& unable);
  void land_device(std::shared_ptr<Incoming> const& message);
  void device_landed(std::shared_ptr<Incoming> const& message, Frames frames, std::optional<Error> const& error);
  void fetch(std::shared_ptr<Incoming> const& message);
  void ask_for(std::shared_ptr<Incoming> const& message, std::string const& unable);
  void pulled(std::shared_ptr<Incoming> const& message, Error const* error);
  void take_device(Record const& record);

  // ── lanes ──
  [[nodiscard]] unsigned lanes_possible(bool local) const noexcept;
  void want_lanes(Lock const& lock);
  void open_lanes(bool local);
  void lanes_opened(bool local);

  void close_wires();

  Setup const setup_;
  Loop& home_;
  Resource& resource_;
  std::uint64_t const generation_ = fork_generation();
  std::string const apart_;  ///< why there is no shared memory between the two; empty: there may be
  std::atomic<std::uint64_t> progress_{0};
  std::atomic<bool> ended_{false};  ///< `error_` is set

  mutable std::mutex mutex_;
  std::optional<Error> error_;  ///< once set, nothing is sent or read any more
  bool started_ = false;
  bool closing_ = false;
  bool flushed_ = false;
  Done close_done_;
  Clock::time_point deadline_{};      ///< of closing, later of waiting for the peer's end
  std::shared_ptr<Session> linked_;  ///< the other end, where it is in this engine

  // out
  std::deque<std::shared_ptr<Outgoing>> queue_;  ///< not written wholly
  std::size_t nstarted_ = 0;                     ///< of `queue_`, from its front
  std::uint64_t next_out_ = 0;
  std::uint64_t queued_nbytes_ = 0;
  std::uint64_t handed_on_nbytes_ = 0;
  struct Waiter {
    std::uint64_t before_nbytes;  ///< of all messages before its own
    Done done;
  };
  std::deque<Waiter> waiters_;
  std::vector<std::byte> records_;  ///< go out before the next message
  std::uint64_t granted_to_us_;
  std::uint64_t started_nbytes_ = 0;
  std::deque<std::shared_ptr<Outgoing>> fetches_;  ///< whose device frames were asked for, and are not on their way
  bool awaits_fence_ = false;                      ///< the next message's device frames may not be read yet; somebody looks
  bool peer_opens_nothing_ = false;                ///< it cannot open exported memory
  bool goodbye_said_ = false;
  bool pumping_ = false;        ///< somebody writes to the first stream, or waits until it can be written to
  bool caller_inside_ = false;  ///< it is a caller's thread, and it uses the descriptor now
  bool close_later_ = false;

  // of whoever pumps
  Pieces plan_;
  std::vector<std::byte> plan_records_;
  std::vector<std::shared_ptr<Outgoing>> plan_begun_;      ///< whose part on the first stream is in the plan
  std::vector<std::shared_ptr<Outgoing>> plan_announced_;  ///< whose record is
  bool plan_goodbye_ = false;

  // in
  std::deque<std::shared_ptr<Incoming>> incoming_;
  std::deque<std::shared_ptr<Incoming>> ready_;
  std::uint64_t ready_nbytes_ = 0;
  std::uint64_t waiting_nframes_ = 0;  ///< of messages that came and were not taken; a message counts as one more
  std::uint64_t taken_nbytes_ = 0;
  std::uint64_t accepted_nbytes_ = 0;
  std::uint64_t granted_by_us_;
  std::function<void()> readable_;
  bool asking_ = false;
  bool opens_nothing_ = false;         ///< exported memory cannot be opened here
  std::shared_ptr<Incoming> pulling_;  ///< whose device frames are being read from the reader's thread
  bool announced_to_us_ = false;
  bool awaits_body_ = false;  ///< of a message that may come now
  bool goodbye_heard_ = false;

  // in, of the home loop
  std::unique_ptr<SocketWire> first_;
  RecordReader reader_;
  std::shared_ptr<Incoming> body_;
  Record pending_;
  Frames pending_frames_;
  bool pending_lands_ = false;  ///< its memory is made or being made
  std::uint64_t next_in_ = 0;

  // lanes
  Lanes lanes_state_ = Lanes::none;
  Clock::time_point lanes_deadline_{};
  bool lanes_local_ = false;
  unsigned usable_lanes_ = 0;
  unsigned used_lanes_ = 0;  ///< when it ended
  std::vector<std::shared_ptr<Lane>> lanes_;
  unsigned lanes_missing_ = 0;
  std::string lanes_why_not_;
  unsigned idle_ticks_ = 0;

  // stalls, of the home loop
  std::uint64_t seen_progress_ = 0;
  Clock::time_point seen_at_ = Clock::now();

  ConnectionStats stats_;
  DeviceWay device_out_{"device frames out"};
  DeviceWay device_in_{"device frames in"};
  Decisions decisions_{20};
};

}  // namespace transload::transport
