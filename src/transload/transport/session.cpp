#include "session.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core.hpp"
#include "transload/base/error.hpp"
#include "transload/base/limits.hpp"

namespace transload::transport {

namespace {

/// Small frames of a message up to this many bytes together are copied behind its record: one piece to send, not many.
constexpr std::size_t copied_nbytes = std::size_t{64} << 10;
/// What a caller of `send` writes itself, where that does not block: handing it to the home loop costs a wake-up.
constexpr std::size_t caller_nbytes = std::size_t{64} << 10;
/// Messages are gathered until so many bytes are in one write.
constexpr std::size_t gathered_nbytes = std::size_t{256} << 10;
/// A message with so many bytes in large frames waits for further streams that are being opened.
constexpr std::uint64_t patient_nbytes = std::uint64_t{2} << 20;
/// A loop turns to others after so many bytes.
constexpr std::size_t turn_nbytes = std::size_t{2} << 20;

constexpr std::chrono::milliseconds lanes_timeout{2'000};
constexpr std::chrono::milliseconds linger_timeout{2'000};

bool is_small(Buffer const& frame) { return frame.kind() != MemoryKind::device && frame.nbytes() < large_frame_nbytes; }
bool is_large(Buffer const& frame) { return frame.kind() != MemoryKind::device && frame.nbytes() >= large_frame_nbytes; }

double seconds_since(Clock::time_point since) { return std::chrono::duration<double>(Clock::now() - since).count(); }

std::string text_of(int error) { return std::strerror(error); }

}  // namespace

// ── Part ─────────────────────────────────────────────────────────────────────────────────────────────────

std::span<iovec const> Part::left() {
  if (!staged_) return pieces_.left();
  if (ring_ == nullptr) {
    ring_ = std::make_unique<StagingRing>(device_, outward_);
    while (!pieces_.done()) {
      iovec const piece = pieces_.left(1).front();
      ring_->add(piece.iov_base, piece.iov_len);
      pieces_.advance(piece.iov_len);
    }
  }
  std::span<std::byte> const bytes = ring_->next();
  at_ = {bytes.data(), bytes.size()};
  return {&at_, 1};
}

void Part::advance(std::size_t nbytes) {
  if (staged_) {
    ring_->advance(nbytes);
  } else {
    pieces_.advance(nbytes);
  }
}

// ── Lane ─────────────────────────────────────────────────────────────────────────────────────────────────

void Lane::attach(MakeWire make) {
  loop_.post([self = shared_from_this(), make = std::move(make)] {
    std::shared_ptr<Wire> wire = make(self->loop_);
    if (self->closed_) {
      wire->close();
      return;
    }
    self->wire_ = std::move(wire);
    if (!self->out_.empty()) self->write();
    if (!self->in_.empty()) self->read();
  });
}

void Lane::send(std::shared_ptr<Outgoing> message, Part part) {
  loop_.post([self = shared_from_this(), message = std::move(message), part = std::make_unique<Part>(std::move(part))]() mutable {
    if (self->closed_) return;
    self->out_.emplace_back(std::move(message), std::move(part));
    if (!self->writing_ && self->wire_ != nullptr) self->write();
  });
}

void Lane::receive(std::shared_ptr<Incoming> message, Part part) {
  loop_.post([self = shared_from_this(), message = std::move(message), part = std::make_unique<Part>(std::move(part))]() mutable {
    if (self->closed_) return;
    self->in_.emplace_back(std::move(message), std::move(part));
    if (!self->reading_ && self->wire_ != nullptr) self->read();
  });
}

void Lane::close() {
  loop_.post([self = shared_from_this()] {
    self->closed_ = true;
    self->out_.clear();
    self->in_.clear();
    if (self->wire_ != nullptr) self->wire_->close();
    self->wire_.reset();
  });
}

void Lane::idle() {
  loop_.post([self = shared_from_this()] {
    if (self->wire_ != nullptr && self->out_.empty()) self->wire_->idle();
  });
}

void Lane::broken(Moved const& moved) {
  auto const session = session_.lock();
  if (session != nullptr) session->lane_broken(this, moved.ended ? "a further stream has ended" : cat("a further stream: ", text_of(moved.error)));
}

void Lane::write() {
  move(out_, writing_, &Wire::write, &Wire::when_writable, &Lane::write, &Session::part_written);
}

void Lane::read() {
  move(in_, reading_, &Wire::read, &Wire::when_readable, &Lane::read, &Session::part_read);
}

template <typename Message>
void Lane::move(Waiting<Message>& waiting, bool& moving, Moved (Wire::*step)(std::span<iovec const>),
                void (Wire::*when_able)(std::function<void()>), void (Lane::*again)(), void (Session::*part_done)(std::shared_ptr<Message>, std::uint64_t)) {
  moving = true;
  std::size_t turn = 0;
  while (!closed_ && !waiting.empty()) {
    auto const session = session_.lock();
    if (session == nullptr) return;
    auto& [message, part] = waiting.front();
    Moved moved;
    bool done = false;
    try {
      moved = (*wire_.*step)(part->left());
      part->advance(moved.nbytes);
      done = part->done();
    } catch (Error const& error) {  // of a GPU
      return session->fail(error.kind(), error.what());
    } catch (std::bad_alloc const&) {
      return session->fail(ErrorKind::exhausted, "no memory for a staging ring");
    }
    if (moved.error != 0 || moved.ended) return broken(moved);
    if (moved.blocked) {
      (*wire_.*when_able)([self = shared_from_this(), again] { (*self.*again)(); });
      return;
    }
    turn += moved.nbytes;
    session->moved();
    std::uint64_t const ncopied = wire_->copies() * moved.nbytes;
    if (done) {
      part.reset();
      auto of = std::move(message);
      waiting.pop_front();
      (*session.*part_done)(std::move(of), ncopied);
    } else if (turn >= turn_nbytes) {
      loop_.post([self = shared_from_this(), again] { (*self.*again)(); });
      return;
    }
  }
  moving = false;
}

// ── Session: begin and end ───────────────────────────────────────────────────────────────────────────────

Session::Session(Setup setup)
    : setup_(std::move(setup)),
      home_(*setup_.home),
      resource_(setup_.options.resource != nullptr ? *setup_.options.resource : default_resource()),
      apart_(setup_.mine.host.apart_from(setup_.theirs.host)),
      granted_to_us_(setup_.theirs.window_nbytes),
      granted_by_us_(setup_.mine.window_nbytes),
      reader_({setup_.mine.nframes_most, std::min(setup_.mine.message_nbytes_most, record_size_most), setup_.mine.kinds}) {}

void Session::start(int descriptor) {
  first_ = std::make_unique<SocketWire>(home_, descriptor);
  home_.post([self = shared_from_this()] {
    self->home_.watch(self);
    self->read_later();
    Lock lock(self->mutex_);
    self->started_ = true;
    self->pump_from(lock);
  });
}

void Session::link(std::shared_ptr<Session> const& connecting, std::shared_ptr<Session> const& listening) {
  {
    Lock const lock(connecting->mutex_);
    connecting->linked_ = listening;
    connecting->decisions_.take("path", "process");
  }
  bool ended = false;
  {
    // Held while what waited is handed over, so that nothing overtakes it; nobody uses the connecting end yet.
    Lock const lock(listening->mutex_);
    ended = listening->error_ || listening->closing_;
    if (!listening->error_) {
      if (!ended) listening->linked_ = connecting;
      listening->decisions_.take("path", "process");
      for (auto const& message : listening->queue_) {
        ++listening->stats_.messages_sent;
        listening->stats_.nbytes_sent += message->nbytes;
        connecting->arrive(std::move(*message));
      }
      listening->queue_.clear();
      listening->goodbye_said_ = listening->closing_;
    }
  }
  if (ended) {
    connecting->fail(ErrorKind::disconnected, "closed by the peer");
    listening->fail(ErrorKind::disconnected, "closed");
  }
  // The socket has done its part.
  listening->home_.post([listening] {
    if (listening->first_ != nullptr) listening->first_->close();
  });
}

void Session::fail(ErrorKind kind, std::string text) {
  auto const self = shared_from_this();
  std::deque<std::shared_ptr<Outgoing>> queue;
  std::deque<std::shared_ptr<Incoming>> incoming;
  std::vector<std::shared_ptr<Lane>> lanes;
  std::shared_ptr<Incoming> pulling;
  std::shared_ptr<Session> linked;
  bool closing;
  bool exported = false;
  Calls calls;
  {
    Lock const lock(mutex_);
    if (error_) return;
    error_.emplace(kind, std::move(text));
    ended_.store(true, std::memory_order_relaxed);
    closing = closing_;
    queue.swap(queue_);
    fetches_.clear();
    for (auto const& message : queue) exported = exported || message->exported;
    nstarted_ = 0;
    queued_nbytes_ = 0;
    incoming.swap(incoming_);
    pulling.swap(pulling_);
    lanes.swap(lanes_);
    used_lanes_ = std::exchange(usable_lanes_, 0);
    linked.swap(linked_);
    if (closing_) {
      ready_.clear();
      ready_nbytes_ = 0;
    }
    for (auto& waiter : waiters_) calls.add([self, done = std::move(waiter.done)] { done(&*self->error_); });
    waiters_.clear();
    if (readable_) calls.add(std::exchange(readable_, {}));
    if (close_done_) {
      // Behind a goodbye everything was handed on: a peer that heard it may be quicker to end than we to note it.
      calls.add([self, done = std::exchange(close_done_, {}), all = goodbye_said_] { done(all ? nullptr : &*self->error_); });
    }
  }
  // A peer that still reads our memory sees the end before others may write there, and drops what it has read.
  if (exported && first_ != nullptr) first_->reset();
  for (auto const& lane : lanes) {
    if (lane != nullptr) lane->close();  // the peer's streams come in any order, and perhaps not all of them
  }
  if (linked != nullptr) linked->fail(ErrorKind::disconnected, closing ? "closed by the peer" : "the peer is gone");
  setup_.core->forget(setup_.token, this);
  home_.post([self] { self->close_wires(); });
}

void Session::close_wires() {
  {
    Lock const lock(mutex_);
    close_later_ = caller_inside_;
    if (close_later_) return;
  }
  if (first_ != nullptr) first_->close();
  body_.reset();
  pending_frames_.clear();
  // Nobody pumps any more: a pump that waited for the stream was dropped with it, one that is posted sees the error first.
  plan_.clear();
  plan_begun_.clear();
  plan_announced_.clear();
}

void Session::close(Done done) {
  auto const self = shared_from_this();
  std::shared_ptr<Session> linked;
  Calls calls;
  {
    Lock lock(mutex_);
    if (error_ || closing_) {
      lock.unlock();
      if (done) done(nullptr);
      return;
    }
    closing_ = true;
    deadline_ = Clock::now() + setup_.options.close_timeout;
    linked = linked_;
    if (readable_) calls.add(std::exchange(readable_, {}));  // whoever waits for a message gets none any more
    if (linked == nullptr) {
      close_done_ = std::move(done);
      pump_from(lock);
      return;
    }
  }
  fail(ErrorKind::disconnected, "closed");
  if (done) done(nullptr);
}

void Session::abort(std::string_view why) noexcept {
  try {
    fail(ErrorKind::disconnected, std::string(why));
  } catch (...) {  // no memory for the text: the peer sees the end when the process ends
  }
}

bool Session::closed() const noexcept {
  if (foreign()) return true;
  Lock const lock(mutex_);
  return closing_ || (error_ && ready_.empty());
}

Error Session::gone(Lock const&) const {
  if (error_ && !closing_) return *error_;
  return Error(ErrorKind::disconnected, "the connection was closed here");
}

void Session::tick(Clock::time_point now) {
  std::string stalled;
  std::vector<std::shared_ptr<Lane>> idle;
  {
    Lock lock(mutex_);
    if (error_) return;
    std::uint64_t const progress = progress_.load(std::memory_order_relaxed);
    bool busy = pumping_ || awaits_body_ || reader_.midway();
    for (std::size_t i = 0; i < nstarted_ && !busy; ++i) busy = queue_[i]->parts > (queue_[i]->waits_for_peer() ? 1U : 0U);
    for (std::size_t i = 0; i < incoming_.size() && !busy; ++i) busy = incoming_[i]->waits_for_peer();
    if (!busy || progress != seen_progress_) seen_at_ = now;
    idle_ticks_ = busy || progress != seen_progress_ ? 0 : idle_ticks_ + 1;
    if (lanes_local_ && idle_ticks_ > 0 && idle_ticks_ <= 8) idle = lanes_;
    seen_progress_ = progress;
    if (flushed_) {
      if (now >= deadline_) stalled = "closed";
    } else if (closing_ && now >= deadline_) {
      stalled = cat("closed; ", queued_nbytes_, " bytes could not be handed on in time");
    } else if (now - seen_at_ >= setup_.options.stall_timeout) {
      stalled = cat("the peer has not moved a byte for ", std::chrono::duration_cast<std::chrono::seconds>(now - seen_at_).count(),
                    " s in the midst of a message");
    } else if (lanes_state_ == Lanes::asked && now >= lanes_deadline_) {
      lanes_state_ = Lanes::failed;
      decisions_.refuse("path", "further streams", "the peer did not open them in time");
      pump_from(lock);
    }
  }
  for (auto const& lane : idle) {
    if (lane != nullptr) lane->idle();
  }
  if (!stalled.empty()) fail(ErrorKind::disconnected, stalled);
}

void Session::drop() noexcept {
  {
    Lock const lock(mutex_);
    if (closing_ && linked_ == nullptr) return;  // it ends by itself, and what was sent arrives
  }
  abort("the connection was dropped here");
}

ConnectionStats Session::stats() const {
  if (foreign()) return {};
  Lock const lock(mutex_);
  ConnectionStats stats = stats_;
  stats.nbytes_waiting = queued_nbytes_;
  stats.nbytes_ready = ready_nbytes_;
  unsigned const lanes = error_ ? used_lanes_ : usable_lanes_;
  stats.path = setup_.same_process ? "process" : lanes > 0 && lanes_local_ ? "shared memory" : "tcp";
  stats.streams = setup_.same_process ? 0 : std::max(lanes, 1u);
  stats.device_path = device_out_.path.empty() ? device_in_.path : device_out_.path;
  stats.peer_takes_device = knows_device(setup_.theirs.kinds);
  stats.decisions = decisions_.list();
  return stats;
}

// ── Session: out ─────────────────────────────────────────────────────────────────────────────────────────

std::shared_ptr<Outgoing> Session::prepare(std::vector<std::uint64_t> sizes, std::vector<FrameKind> kinds, std::vector<ExportedMemory> exported) const {
  auto message = std::make_shared<Outgoing>();
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::uint64_t const size = sizes[i];
    total += size;
    if (!kinds.empty() && kinds[i] == FrameKind::device) {
      message->device = true;
      message->device_nbytes += size;
    } else if (size >= large_frame_nbytes) {
      message->large_nbytes += size;
    }
  }
  expects(sizes.size() <= setup_.theirs.nframes_most && sizes.size() <= UINT32_MAX, ErrorKind::exhausted,
          [&] { return cat("a message of ", sizes.size(), " frames; the peer takes ", setup_.theirs.nframes_most); });
  std::uint64_t const most = std::min(setup_.theirs.message_nbytes_most, record_size_most);
  expects(total <= most, ErrorKind::exhausted, [&] { return cat("a message of ", total, " bytes; the peer takes ", most); });
  for (FrameKind& kind : kinds) {
    if (static_cast<unsigned>(kind) > setup_.theirs.kinds) kind = FrameKind::plain;
  }
  message->nbytes = total;
  message->body_nbytes = total - message->device_nbytes;
  message->exported = !exported.empty();
  pack_record({.type = RecordType::message, .sizes = std::move(sizes), .kinds = std::move(kinds), .exported = std::move(exported)}, message->lead);
  message->record_nbytes = message->lead.size();
  return message;
}

void Session::send(Frames frames, Done done, std::span<FrameKind const> kinds) {
  expects(!foreign(), ErrorKind::disconnected, "the connection belongs to the process that this one was forked from");
  expects(kinds.empty() || kinds.size() == frames.size(), ErrorKind::failed, [&] { return cat(kinds.size(), " kinds of ", frames.size(), " frames"); });
  std::vector<FrameKind> told(kinds.begin(), kinds.end());
  bool device = false;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (frames[i].kind() != MemoryKind::device) continue;
    device = true;
    told.resize(frames.size());
    told[i] = FrameKind::device;
  }
  if (device && !knows_device(setup_.theirs.kinds)) {
    bring_to_host(frames);
    device = false;
    std::ranges::replace(told, FrameKind::device, FrameKind::plain);
  }
  if (device && may_inline(frames)) {
    inline_device(frames, told);
    device = false;
  }
  std::vector<std::uint64_t> sizes;
  sizes.reserve(frames.size());
  for (Buffer const& frame : frames) sizes.push_back(frame.nbytes());
  auto message = prepare(std::move(sizes), std::move(told), device ? exports_of(frames) : std::vector<ExportedMemory>());
  std::uint64_t const small = message->body_nbytes - message->large_nbytes;
  if (!setup_.same_process && small <= copied_nbytes) {
    message->lead.reserve(message->lead.size() + small);
    for (Buffer const& frame : frames) {
      if (is_small(frame)) message->lead.insert(message->lead.end(), frame.bytes().begin(), frame.bytes().end());
    }
    message->small_in_lead = true;
    if (message->large_nbytes == 0 && !device) frames.clear();
  }
  message->frames = std::move(frames);
  enqueue(std::move(message), std::move(done));
}

void Session::send_copy(std::span<std::span<std::byte const> const> frames, Done done) {
  expects(!foreign(), ErrorKind::disconnected, "the connection belongs to the process that this one was forked from");
  std::vector<std::uint64_t> sizes;
  sizes.reserve(frames.size());
  for (auto const& frame : frames) sizes.push_back(frame.size());
  auto message = prepare(sizes, std::vector<FrameKind>());
  if (setup_.same_process) {
    message->frames = make_landing(sizes, resource_);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      if (!frames[i].empty()) std::memcpy(message->frames[i].writable().data(), frames[i].data(), frames[i].size());
    }
  } else {
    message->lead.reserve(message->lead.size() + message->nbytes);
    auto const copy = [&](bool large) {
      for (auto const& frame : frames) {
        if ((frame.size() >= large_frame_nbytes) == large) message->lead.insert(message->lead.end(), frame.begin(), frame.end());
      }
    };
    copy(false);
    copy(true);
    message->small_in_lead = true;
    message->large_nbytes = 0;  // none of it is left to be dealt out
  }
  enqueue(std::move(message), std::move(done));
}

void Session::enqueue(std::shared_ptr<Outgoing> message, Done done) {
  Lock lock(mutex_);
  if (error_ || closing_) {
    Error const error = gone(lock);
    lock.unlock();
    if (done) done(&error);
    return;
  }
  message->number = next_out_++;
  message->since = Clock::now();
  std::memcpy(message->lead.data() + 8, &message->number, 8);
  bool const waits = done && queued_nbytes_ > setup_.options.send_bound_nbytes;
  if (waits) waiters_.push_back({handed_on_nbytes_ + queued_nbytes_, std::move(done)});
  queued_nbytes_ += message->nbytes;
  if (linked_ != nullptr) {
    auto const linked = linked_;
    ++stats_.messages_sent;
    stats_.nbytes_sent += message->nbytes;
    lock.unlock();
    linked->arrive(std::move(*message));
  } else {
    if (!setup_.same_process) stats_.nbytes_copied += message->lead.size() - message->record_nbytes;
    queue_.push_back(std::move(message));
    pump_from(lock);
  }
  if (!waits && done) done(nullptr);
}

/// Writes what there is to be written, unless somebody does already. Lets go of the lock.
void Session::pump_from(Lock& lock) {
  if (!started_ || pumping_ || error_ || setup_.same_process) {
    lock.unlock();
    return;
  }
  pumping_ = true;
  bool const on_caller = !home_.here();
  caller_inside_ = on_caller;
  lock.unlock();
  pump(on_caller);
}

void Session::pump_when_writable() {
  if (first_ != nullptr) first_->when_writable([self = shared_from_this()] { self->pump(false); });
}

/// Ends this thread's part of pumping: for good where there is nothing left (`done`), else to go on on the home loop.
void Session::leave_pump(Lock& lock, bool on_caller, bool done) {
  if (done) pumping_ = false;
  bool close = false;
  if (on_caller) {
    caller_inside_ = false;
    close = std::exchange(close_later_, false);
  }
  lock.unlock();
  if (close) home_.post([self = shared_from_this()] { self->close_wires(); });
}

void Session::pump(bool on_caller) {
  auto const self = shared_from_this();
  for (;;) {
    {
      std::vector<std::shared_ptr<Outgoing>> released;
      Calls calls;
      Lock lock(mutex_);
      if (error_) return leave_pump(lock, on_caller, true);
      if (plan_.done()) {
        for (auto const& message : plan_begun_) --message->parts;
        plan_begun_.clear();
        plan_announced_.clear();
        if (std::exchange(plan_goodbye_, false)) {
          flushed_ = true;
          deadline_ = Clock::now() + linger_timeout;
          if (close_done_) calls.add([done = std::exchange(close_done_, {})] { done(nullptr); });
          home_.post([self] {
            if (self->first_ != nullptr) self->first_->shut_writing();
          });
        }
        settle(lock, released, calls);
        if (!compose(lock)) return leave_pump(lock, on_caller, true);
      }
      if (on_caller && plan_.nbytes() > caller_nbytes) {
        leave_pump(lock, on_caller, false);
        home_.post([self] { self->pump(false); });
        return;
      }
    }
    std::size_t turn = 0;
    while (!plan_.done() && turn < turn_nbytes) {
      Moved const written = first_->write(plan_.left());
      if (written.error != 0) {
        // Nobody pumps any more. What the peer sent before it went may not have been read yet.
        Lock lock(mutex_);
        leave_pump(lock, on_caller, false);
        home_.post([self, why = cat("the peer is gone: ", text_of(written.error))] { self->read_rest(why); });
        return;
      }
      if (written.blocked) {
        if (on_caller) {
          Lock lock(mutex_);
          leave_pump(lock, on_caller, false);
          home_.post([self] { self->pump_when_writable(); });
        } else {
          pump_when_writable();
        }
        return;
      }
      plan_.advance(written.nbytes);
      turn += written.nbytes;
      moved();
    }
    if (!plan_.done() && !on_caller) {
      home_.post([self] { self->pump(false); });
      return;
    }
  }
}

/// Puts together what goes out next. False: nothing can go now.
bool Session::compose(Lock const& lock) {
  plan_.clear();
  plan_records_.clear();
  if (nstarted_ < queue_.size() && queue_[nstarted_]->large_nbytes >= setup_.options.stripe_from_nbytes) want_lanes(lock);
  if (!fetches_.empty()) send_fetched(lock);
  if (closing_ && queue_.empty() && !goodbye_said_) {
    pack_record({.type = RecordType::goodbye}, records_);
    goodbye_said_ = plan_goodbye_ = true;
  }
  plan_records_.swap(records_);
  plan_.add(plan_records_.data(), plan_records_.size());
  for (auto const& message : plan_begun_) {  // device frames without further streams: behind their record, which is the last one
    for (Buffer const& frame : message->staged) plan_.add(frame.data(), frame.nbytes());
  }
  while (nstarted_ < queue_.size() && plan_.nbytes() < gathered_nbytes) {
    auto const& message = queue_[nstarted_];
    if (message->large_nbytes >= setup_.options.stripe_from_nbytes && lanes_state_ == Lanes::none) break;  // next time round
    if (message->device && !ready(lock, message)) break;
    bool const patient = message->large_nbytes >= patient_nbytes && (lanes_state_ == Lanes::asked || lanes_state_ == Lanes::opening);
    if (patient || message->body_nbytes > credit(lock)) {
      if (!message->announced) {
        message->announced = true;
        plan_.add(message->lead.data(), message->record_nbytes);
        plan_announced_.push_back(message);
      }
      break;
    }
    begin(lock, message);
  }
  if (plan_.done() && nstarted_ < queue_.size() && lanes_state_ == Lanes::none &&
      queue_[nstarted_]->large_nbytes >= setup_.options.stripe_from_nbytes) {
    return compose(lock);
  }
  return !plan_.done();
}

void Session::begin(Lock const&, std::shared_ptr<Outgoing> const& message) {
  ++nstarted_;
  message->started = true;
  started_nbytes_ += message->body_nbytes;
  unsigned const nstreams = message->large_nbytes >= setup_.options.stripe_from_nbytes ? usable_lanes_ : 0;
  std::uint32_t const chunk = nstreams > 0 ? chunk_for(message->large_nbytes, nstreams) : 0;
  if (message->announced) {
    pack_record({.type = RecordType::body, .nstreams = static_cast<std::uint8_t>(nstreams), .chunk_nbytes = chunk, .number = message->number}, message->body);
    plan_.add(message->body.data(), message->body.size());
  } else {
    message->lead[1] |= std::byte{1};  // the body follows
    message->lead[2] = static_cast<std::byte>(nstreams);
    std::memcpy(message->lead.data() + 16, &chunk, 4);
    plan_.add(message->lead.data(), message->record_nbytes);
  }
  if (message->small_in_lead) {
    plan_.add(message->lead.data() + message->record_nbytes, message->lead.size() - message->record_nbytes);
  } else {
    for (Buffer const& frame : message->frames) {
      if (is_small(frame)) plan_.add(frame.data(), frame.nbytes());
    }
  }
  message->parts = message->device ? 2 : 1;
  plan_begun_.push_back(message);
  if (nstreams == 0) {
    for (Buffer const& frame : message->frames) {
      if (is_large(frame)) plan_.add(frame.data(), frame.nbytes());
    }
    return;
  }
  std::vector<iovec> large;
  for (Buffer const& frame : message->frames) {
    if (is_large(frame)) large.push_back({const_cast<std::byte*>(frame.data()), frame.nbytes()});
  }
  for (unsigned i = 0; i < nstreams; ++i) {
    Pieces pieces = share(large, nstreams, i, chunk);
    if (pieces.done()) continue;
    ++message->parts;
    lanes_[i]->send(message, Part(std::move(pieces)));
  }
}

/// Lets go of messages that are written wholly, and tells those that waited for that.
void Session::settle(Lock const& lock, std::vector<std::shared_ptr<Outgoing>>& released, Calls& calls) {
  while (nstarted_ > 0 && queue_.front()->parts == 0) {
    auto& message = queue_.front();
    handed_on(lock, message->nbytes, calls);
    ++stats_.messages_sent;
    stats_.nbytes_sent += message->nbytes;
    stats_.seconds_sending += seconds_since(message->since);
    released.push_back(std::move(message));
    queue_.pop_front();
    --nstarted_;
  }
}

void Session::handed_on(Lock const&, std::uint64_t nbytes, Calls& calls) {
  queued_nbytes_ -= nbytes;
  handed_on_nbytes_ += nbytes;
  while (!waiters_.empty() && waiters_.front().before_nbytes <= handed_on_nbytes_ + setup_.options.send_bound_nbytes) {
    calls.add([done = std::move(waiters_.front().done)] { done(nullptr); });
    waiters_.pop_front();
  }
}

void Session::part_written(std::shared_ptr<Outgoing> message, std::uint64_t ncopied) {
  std::vector<std::shared_ptr<Outgoing>> released;
  Calls calls;
  Lock lock(mutex_);
  stats_.nbytes_copied += ncopied;
  --message->parts;
  if (error_) return;
  settle(lock, released, calls);
  if (closing_ && queue_.empty()) pump_from(lock);
}

// ── Session: in ──────────────────────────────────────────────────────────────────────────────────────────

void Session::arrive(Outgoing message) {
  auto incoming = std::make_shared<Incoming>();
  incoming->number = message.number;
  incoming->nbytes = incoming->body_nbytes = message.nbytes;
  incoming->frames = std::move(message.frames);
  Calls calls;
  Lock const lock(mutex_);
  if (error_ || closing_) return;
  waiting_nframes_ += 1 + incoming->frames.size();
  incoming_.push_back(std::move(incoming));
  deliver(lock, calls);
}

void Session::taken_by_peer(std::uint64_t nbytes) {
  Calls calls;
  Lock const lock(mutex_);
  if (!error_) handed_on(lock, nbytes, calls);
}

bool Session::try_receive(Frames& frames, LandNow const& land) {
  expects(!foreign(), ErrorKind::disconnected, "the connection belongs to the process that this one was forked from");
  std::shared_ptr<Incoming> message;
  Lock lock(mutex_);
  if (closing_) throw gone(lock);
  if (offers(lock)) {
    message = incoming_.front();
    message->device = Incoming::Device::landing;
    lock.unlock();
    if (land) {
      land_now(message, land);
    } else {
      home_.post([self = shared_from_this(), message] { self->land_device(message); });
    }
    lock.lock();
  }
  if (ready_.empty()) {
    if (error_) throw *error_;
    return false;
  }
  message = std::move(ready_.front());
  ready_.pop_front();
  ready_nbytes_ -= message->nbytes;
  waiting_nframes_ -= 1 + message->frames.size();
  taken_nbytes_ += message->body_nbytes;
  frames = std::move(message->frames);
  if (auto const linked = linked_) {
    lock.unlock();
    linked->taken_by_peer(message->nbytes);
    return true;
  }
  // The window moves on in halves: one record for many small messages.
  std::uint64_t const window = setup_.mine.window_nbytes;
  if (!error_ && taken_nbytes_ + window >= granted_by_us_ + std::max<std::uint64_t>(window / 2, 1)) {
    granted_by_us_ = taken_nbytes_ + window;
    pack_record({.type = RecordType::grant, .number = granted_by_us_}, records_);
    pump_from(lock);
  }
  if (!message->inlined.empty()) {
    if (lock.owns_lock()) lock.unlock();
    land_inlined(frames, message->inlined);
  }
  return true;
}

void Session::when_readable(std::function<void()> call) {
  if (!foreign()) {
    Lock const lock(mutex_);
    if (ready_.empty() && !error_ && !closing_ && !offers(lock)) {
      readable_ = std::move(call);
      asking_ = true;
      bool const lands = !incoming_.empty() && incoming_.front()->device == Incoming::Device::wanted;
      if (announced_to_us_ || lands) home_.post([self = shared_from_this()] { self->grant_pending(); });
      return;
    }
  }
  call();
}

void Session::read_later() {
  if (first_ != nullptr) first_->when_readable([self = shared_from_this()] { self->read(); });
}

void Session::read() {
  if (read_some()) read_later();
}

/// Reads until there is nothing now, or for a turn. False: nothing will come any more.
bool Session::read_some() {
  if (first_ == nullptr || ended_.load(std::memory_order_relaxed)) return false;
  std::span<std::byte> const scratch = home_.scratch();
  std::size_t turn = 0;
  try {
    while (turn < turn_nbytes && !ended_.load(std::memory_order_relaxed)) {
      // The rest of a body goes where it will lie, and what comes behind it into scratch memory, by one call.
      std::array<iovec, 65> into;
      std::size_t n = 0;
      std::size_t wanted = 0;
      if (body_ != nullptr) {
        for (iovec const& piece : body_->first.left(64)) {
          into[n++] = piece;
          wanted += piece.iov_len;
        }
      }
      if (body_ == nullptr || wanted == body_->first.nbytes()) {
        into[n++] = {scratch.data(), scratch.size()};
        wanted += scratch.size();
      }
      Moved const came = first_->read({into.data(), n});
      if (came.blocked) break;
      if (came.ended || came.error != 0) {
        end_of_stream(came);
        return false;
      }
      moved();
      turn += came.nbytes;
      std::size_t in_scratch = came.nbytes;
      if (body_ != nullptr) {
        std::size_t const nbody = std::min<std::uint64_t>(came.nbytes, body_->first.nbytes());
        body_->first.advance(nbody);
        in_scratch -= nbody;
        if (body_->first.done()) part_read(std::exchange(body_, nullptr), 0);
      }
      take_bytes(scratch.first(in_scratch));
      if (came.nbytes < wanted) break;
    }
  } catch (Error const& error) {
    if (error.kind() == ErrorKind::malformed && setup_.options.log) {
      setup_.options.log(cat("closing the connection with ", peer_address().text(), ": ", error.what()));
    }
    fail(error.kind(), error.what());
    return false;
  } catch (std::bad_alloc const&) {
    fail(ErrorKind::exhausted, "no memory for what came");
    return false;
  }
  return true;
}

/// The peer takes nothing any more: reads what it sent before, until nothing is there, and ends for the reason `why`.
void Session::read_rest(std::string const& why) {
  std::uint64_t const before = progress_.load(std::memory_order_relaxed);
  if (!read_some()) return;
  if (progress_.load(std::memory_order_relaxed) != before) {
    home_.post([self = shared_from_this(), why] { self->read_rest(why); });
    return;
  }
  {
    Lock const lock(mutex_);
    if (goodbye_heard_) return;  // it ends with the last message
  }
  fail(ErrorKind::disconnected, why);
}

void Session::end_of_stream(Moved const& end) {
  {
    Lock const lock(mutex_);
    // Behind a goodbye the rest comes on further streams, and the last message of it ends the connection.
    if (linked_ != nullptr || goodbye_heard_) return;
  }
  std::string text = end.error != 0 ? cat("the peer is gone: ", text_of(end.error)) : std::string("the peer is gone");
  if (body_ != nullptr || reader_.midway()) text += ", in the midst of a message";
  fail(ErrorKind::disconnected, std::move(text));
}

void Session::take_bytes(std::span<std::byte const> bytes) {
  while (!bytes.empty() && !ended_.load(std::memory_order_relaxed)) {
    if (body_ == nullptr) {
      expects(!goodbye_heard_, ErrorKind::malformed, "bytes behind a goodbye");
      bytes = bytes.subspan(reader_.feed(bytes));
      if (reader_.complete()) take_record(reader_.take());
      continue;
    }
    std::uint64_t ncopied = 0;
    while (!bytes.empty() && !body_->first.done()) {
      iovec const& piece = body_->first.left(1).front();
      std::size_t const n = std::min(piece.iov_len, bytes.size());
      std::memcpy(piece.iov_base, bytes.data(), n);
      body_->first.advance(n);
      bytes = bytes.subspan(n);
      ncopied += n;
    }
    if (body_->first.done()) part_read(std::exchange(body_, nullptr), ncopied);
  }
}

void Session::take_record(Record record) {
  switch (record.type) {
    case RecordType::message: {
      expects(record.number == next_in_ && pending_.type != RecordType::message, ErrorKind::malformed,
              [&] { return cat("message ", record.number, " where ", next_in_, " is due", pending_.type == RecordType::message ? ", announced" : ""); });
      ++next_in_;
      if (record.follows) {
        auto const nstreams = record.nstreams;
        auto const chunk = record.chunk_nbytes;
        begin_body(std::move(record), nstreams, chunk, {});
        return;
      }
      expects(record.nstreams == 0, ErrorKind::malformed, "an announced message has streams");
      pending_ = std::move(record);
      bool grant;
      {
        Lock const lock(mutex_);
        announced_to_us_ = true;
        grant = asking_;
      }
      if (grant) grant_pending();
      return;
    }
    case RecordType::body: {
      expects(pending_.type == RecordType::message && pending_.number == record.number, ErrorKind::malformed,
              [&] { return cat("the body of message ", record.number, ", which was not announced"); });
      Record announced = std::exchange(pending_, {});
      pending_lands_ = false;
      {
        Lock const lock(mutex_);
        announced_to_us_ = awaits_body_ = false;
      }
      begin_body(std::move(announced), record.nstreams, record.chunk_nbytes, std::exchange(pending_frames_, {}));
      return;
    }
    case RecordType::fetch:
      return take_fetch(record);
    case RecordType::fetched:
      return take_fetched(record);
    case RecordType::device:
      return take_device(record);
    case RecordType::grant: {
      Lock lock(mutex_);
      granted_to_us_ = std::max(granted_to_us_, record.number);
      pump_from(lock);
      return;
    }
    case RecordType::streams: {
      Lock lock(mutex_);
      if (record.please) {
        expects(setup_.connecting, ErrorKind::malformed, "the connecting end asks for streams, which it must open itself");
        want_lanes(lock);
      } else {
        expects(!setup_.connecting, ErrorKind::malformed, "the listening end says that it opened streams");
        bool all = record.nstreams <= lanes_.size();
        for (unsigned i = 0; all && i < record.nstreams; ++i) all = lanes_[i] != nullptr;
        expects(all, ErrorKind::malformed, [&] { return cat(static_cast<unsigned>(record.nstreams), " streams are said to be open, and are not"); });
        usable_lanes_ = record.nstreams;
        lanes_state_ = record.nstreams > 0 ? Lanes::ready : Lanes::failed;
        if (record.nstreams > 0) {
          decisions_.take("path", lanes_local_ ? "shared memory" : "tcp", lanes_local_ ? "" : apart_);
        } else {
          decisions_.refuse("path", "further streams", "the peer could not open them");
        }
      }
      pump_from(lock);
      return;
    }
    case RecordType::goodbye: {
      Calls calls;
      Lock const lock(mutex_);
      expects(pending_.type != RecordType::message, ErrorKind::malformed, "a goodbye before the body of an announced message");
      bool const device = std::ranges::any_of(incoming_, [](auto const& message) { return message->device != Incoming::Device::none && message->device != Incoming::Device::coming; });
      expects(!device, ErrorKind::malformed, "a goodbye before device frames that it owes");
      goodbye_heard_ = true;
      deliver(lock, calls);
      return;
    }
  }
}

/// The body of `record`'s message follows; `frames` is memory for it where that was made before.
void Session::begin_body(Record record, unsigned nstreams, std::uint32_t chunk_nbytes, Frames frames) {
  {
    Lock const lock(mutex_);
    expects(record.nbytes <= granted_by_us_ - accepted_nbytes_, ErrorKind::malformed,
            [&] { return cat("message ", record.number, ": ", record.nbytes, " bytes where ", granted_by_us_ - accepted_nbytes_, " were granted"); });
    expects(nstreams <= usable_lanes_, ErrorKind::malformed, [&] { return cat("message ", record.number, " over ", nstreams, " streams of ", usable_lanes_); });
    accepted_nbytes_ += record.nbytes;
    // What has no bytes needs no grant, and takes memory all the same.
    waiting_nframes_ += 1 + record.sizes.size();
    expects(waiting_nframes_ <= setup_.mine.nframes_most + 2 * setup_.mine.window_nbytes, ErrorKind::exhausted,
            [&] { return cat("message ", record.number, ": ", waiting_nframes_, " frames wait to be taken"); });
  }
  auto message = std::make_shared<Incoming>();
  message->number = record.number;
  message->nbytes = record.nbytes + record.device_nbytes;
  message->body_nbytes = record.nbytes;
  message->since = Clock::now();
  for (std::size_t i = 0; i < record.kinds.size(); ++i) {
    if (record.kinds[i] == FrameKind::inlined) message->inlined.push_back(i);
    if (record.kinds[i] != FrameKind::device) continue;
    message->device = Incoming::Device::wanted;
    message->device_frames.push_back(i);
    message->device_sizes.push_back(std::exchange(record.sizes[i], 0));
  }
  bool const device = message->device == Incoming::Device::wanted;
  message->exported = std::move(record.exported);
  message->frames = frames.size() == record.sizes.size() && !frames.empty() ? std::move(frames) : make_landing(record.sizes, resource_);
  std::vector<iovec> large;
  for (Buffer& frame : message->frames) {
    if (frame.nbytes() < large_frame_nbytes) {
      message->first.add(frame.data(), frame.nbytes());
    } else {
      large.push_back({frame.writable().data(), frame.nbytes()});
    }
  }
  if (nstreams == 0) {
    for (iovec const& frame : large) message->first.add(frame.iov_base, frame.iov_len);
  }
  std::vector<std::pair<std::shared_ptr<Lane>, Pieces>> shares;
  Calls calls;
  Lock const lock(mutex_);
  if (error_) return;
  for (unsigned i = 0; i < nstreams; ++i) {
    if (Pieces pieces = share(large, nstreams, i, chunk_nbytes); !pieces.done()) shares.emplace_back(lanes_[i], std::move(pieces));
  }
  message->parts = static_cast<unsigned>(shares.size()) + (message->first.done() ? 0 : 1) + (device ? 1 : 0);
  incoming_.push_back(message);
  for (auto& [lane, pieces] : shares) lane->receive(message, Part(std::move(pieces)));
  if (device) calls.add([self = shared_from_this()] { self->grant_pending(); });
  if (!message->first.done()) {
    body_ = std::move(message);
  } else if (shares.empty()) {
    deliver(lock, calls);
  }
}

/// A message waits for leave to come, or one that came for its device frames: both get memory when somebody asks for the message and nothing else is before it.
void Session::grant_pending() {
  std::shared_ptr<Incoming> came;
  {
    Lock const lock(mutex_);
    if (error_ || !asking_ || !ready_.empty()) return;
    if (!incoming_.empty()) {
      came = incoming_.front();
      if (came->device != Incoming::Device::wanted || (setup_.options.lands_when_received && !came->exported.empty() && !opens_nothing_)) return;
      came->device = Incoming::Device::landing;
    } else if (pending_.type != RecordType::message || pending_lands_) {
      return;
    }
  }
  if (came != nullptr) return land_device(came);
  pending_lands_ = true;
  Announced body{pending_.sizes, pending_.kinds};
  bool plain = true;
  for (std::size_t i = 0; i < body.kinds.size(); ++i) {
    if (body.kinds[i] == FrameKind::device) body.sizes[i] = 0;
    if (body.kinds[i] != FrameKind::object) body.kinds[i] = FrameKind::plain;
    plain = plain && body.kinds[i] == FrameKind::plain;
  }
  if (!plain) {
    setup_.options.landing(std::move(body), [weak = weak_from_this(), number = pending_.number](Frames frames, Error const* error) {
      auto const self = weak.lock();
      if (self == nullptr) return;
      self->home_.post([self, number, frames = std::move(frames), why = error != nullptr ? std::optional(*error) : std::nullopt]() mutable {
        self->landed(number, std::move(frames), why);
      });
    });
    return;
  }
  try {
    landed(pending_.number, make_landing(body.sizes, resource_), {});
  } catch (Error const& error) {
    fail(error.kind(), error.what());
  } catch (std::bad_alloc const&) {
    fail(ErrorKind::exhausted, "no memory for the next message");
  }
}

/// There is memory for the announced message: it may come.
void Session::landed(std::uint64_t number, Frames frames, std::optional<Error> const& error) {
  if (error) return fail(error->kind(), error->what());
  if (pending_.type != RecordType::message || pending_.number != number || !pending_frames_.empty()) return;  // told twice
  bool fits = frames.size() == pending_.sizes.size();
  for (std::size_t i = 0; fits && i < frames.size(); ++i) {
    bool const device = !pending_.kinds.empty() && pending_.kinds[i] == FrameKind::device;
    fits = frames[i].nbytes() == (device ? 0 : pending_.sizes[i]) && !frames[i].readonly() && frames[i].kind() != MemoryKind::device;
  }
  if (!fits) return fail(ErrorKind::failed, "the memory made for an announced message is not of its sizes");
  Lock lock(mutex_);
  if (error_) return;
  pending_frames_ = std::move(frames);
  awaits_body_ = true;
  std::uint64_t const wanted = accepted_nbytes_ + pending_.nbytes;
  if (wanted > granted_by_us_) {
    granted_by_us_ = wanted;
    pack_record({.type = RecordType::grant, .number = granted_by_us_}, records_);
    pump_from(lock);
  }
}

void Session::part_read(std::shared_ptr<Incoming> message, std::uint64_t ncopied) {
  Calls calls;
  Lock const lock(mutex_);
  stats_.nbytes_copied += ncopied;
  if (--message->parts <= 1 && !error_) deliver(lock, calls);
}

void Session::deliver(Lock const& lock, Calls& calls) {
  bool any = false;
  while (!incoming_.empty() && incoming_.front()->parts == 0) {
    auto message = std::move(incoming_.front());
    incoming_.pop_front();
    ++stats_.messages_received;
    stats_.nbytes_received += message->nbytes;
    if (linked_ == nullptr) stats_.seconds_receiving += seconds_since(message->since);
    if (closing_) {  // nobody will take it
      waiting_nframes_ -= 1 + message->frames.size();
      continue;
    }
    ready_nbytes_ += message->nbytes;
    ready_.push_back(std::move(message));
    any = true;
  }
  if ((any || offers(lock)) && readable_) {
    asking_ = false;
    calls.add(std::exchange(readable_, {}));
  }
  if (goodbye_heard_ && incoming_.empty()) {
    calls.add([self = shared_from_this()] { self->fail(ErrorKind::disconnected, "closed by the peer"); });
  }
}

// ── Session: lanes ───────────────────────────────────────────────────────────────────────────────────────

unsigned Session::lanes_possible(bool local) const noexcept {
  if (!local) return std::min(setup_.mine.streams, setup_.theirs.streams);
  bool const can = apart_.empty() && !(setup_.connecting ? setup_.theirs : setup_.mine).local_name.empty();
  return can ? std::min(setup_.mine.local_streams, setup_.theirs.local_streams) : 0;
}

void Session::want_lanes(Lock const&) {
  if (lanes_state_ != Lanes::none || setup_.same_process) return;
  unsigned const local = lanes_possible(true);
  if (local == 0) {
    bool const off = setup_.mine.local_streams == 0 || setup_.theirs.local_streams == 0;
    decisions_.refuse("path", "shared memory", !apart_.empty() ? apart_ : off ? "turned off" : "the listening end takes none");
  }
  if (local == 0 && lanes_possible(false) == 0) {
    lanes_state_ = Lanes::failed;
    decisions_.take("path", "tcp");
    return;
  }
  if (setup_.connecting) {
    lanes_state_ = Lanes::opening;
    home_.post([self = shared_from_this(), local] { self->open_lanes(local > 0); });
  } else {
    lanes_state_ = Lanes::asked;
    lanes_deadline_ = Clock::now() + 2 * lanes_timeout;
    pack_record({.type = RecordType::streams, .please = true, .nstreams = static_cast<std::uint8_t>(std::max(local, lanes_possible(false)))}, records_);
  }
}

void Session::open_lanes(bool local) {
  auto const self = shared_from_this();
  unsigned const n = lanes_possible(local);
  std::vector<std::shared_ptr<Lane>> lanes;
  for (unsigned i = 0; i < n; ++i) lanes.push_back(std::make_shared<Lane>(setup_.core->loop_beside(home_, i + 1), weak_from_this()));
  {
    Lock const lock(mutex_);
    if (error_) return;
    lanes_ = lanes;
    lanes_local_ = local;
    lanes_missing_ = n;
    lanes_why_not_.clear();
  }
  auto const one_less = [self, local](std::string why_not) {
    Lock lock(self->mutex_);
    if (!why_not.empty()) self->lanes_why_not_ = std::move(why_not);
    if (--self->lanes_missing_ > 0) return;
    lock.unlock();
    self->home_.post([self, local] { self->lanes_opened(local); });
  };
  Hello hello = setup_.mine;
  hello.token = setup_.token;
  for (unsigned i = 0; i < n; ++i) {
    hello.stream = i + 1;
    std::shared_ptr<RingMemory> memory;
    Endpoint there = setup_.peer;
    try {
      if (local) {
        there = Endpoint::local(setup_.theirs.local_name);
        memory = std::make_shared<RingMemory>(RingMemory::make());
      }
    } catch (Error const& error) {
      one_less(error.what());
      continue;
    }
    int const passed = local ? memory->descriptor() : -1;
    auto const timeout = setup_.options.stall_timeout;
    dial(*setup_.core, lanes[i]->loop(), {there}, hello, passed, lanes_timeout, [=, lane = lanes[i]](Dialled dialled, Error const* error) {
      if (error != nullptr) return one_less(error->what());
      if (local) {
        lane->attach([memory, fd = dialled.descriptor](Loop& loop) -> std::shared_ptr<Wire> {
          auto wire = std::make_shared<RingWire>(loop, fd, std::move(*memory), true);
          wire->start();
          return wire;
        });
      } else {
        tune_tcp(dialled.descriptor, timeout);
        lane->attach([fd = dialled.descriptor](Loop& loop) -> std::shared_ptr<Wire> { return std::make_shared<SocketWire>(loop, fd); });
      }
      one_less({});
    });
  }
}

void Session::lanes_opened(bool local) {
  std::vector<std::shared_ptr<Lane>> dropped;
  Lock lock(mutex_);
  if (error_) return;
  std::string const what = local ? "shared memory" : "tcp";
  bool const good = lanes_why_not_.empty();
  if (good) {
    usable_lanes_ = static_cast<unsigned>(lanes_.size());
    lanes_state_ = Lanes::ready;
    decisions_.take("path", what, local ? "" : apart_);
  } else {
    decisions_.refuse("path", local ? what : "further streams", lanes_why_not_);
    dropped.swap(lanes_);
    for (auto const& lane : dropped) lane->close();
    if (local && lanes_possible(false) > 0) {
      lock.unlock();
      open_lanes(false);
      return;
    }
    lanes_state_ = Lanes::failed;
    decisions_.take("path", "tcp");
  }
  pack_record({.type = RecordType::streams, .nstreams = static_cast<std::uint8_t>(usable_lanes_)}, records_);
  pump_from(lock);
}

std::string Session::join(unsigned stream, bool local, std::shared_ptr<Lane>& lane) {
  std::shared_ptr<Lane> before;
  {
    Lock const lock(mutex_);
    if (error_) return "the connection has ended";
    if (setup_.connecting || setup_.same_process) return "this end takes no further streams";
    if (usable_lanes_ > 0) return "the connection has its streams already";
    if (stream == 0 || stream > lanes_possible(local)) return cat("stream ", stream, " of ", lanes_possible(local));
    lanes_local_ = local;
    if (lanes_.size() < stream) lanes_.resize(stream);
    lane = std::make_shared<Lane>(setup_.core->loop_beside(home_, stream), weak_from_this());
    before = std::exchange(lanes_[stream - 1], lane);
  }
  if (before != nullptr) before->close();
  return {};
}

void Session::lane_broken(Lane const* lane, std::string const& what) {
  {
    Lock const lock(mutex_);
    bool ours = false;
    for (auto const& one : lanes_) ours = ours || one.get() == lane;
    if (!ours || usable_lanes_ == 0) return;  // the end that opens them gave up on all of them
  }
  fail(ErrorKind::disconnected, cat("the peer is gone: ", what));
}

}  // namespace transload::transport
