/// Frames in a GPU's memory. They are no part of a message's body: the receiver makes memory for them when somebody asks for the message, and then reads
/// them where they lie or has them sent through staging rings. docs/transport.md, "Device frames".
#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

#include "core.hpp"
#include "session.hpp"
#include "transload/base/error.hpp"
#include "transload/memory/device.hpp"

namespace transload::transport {

namespace {

/// A pull that is this quick is waited for: a timer takes longer.
constexpr std::chrono::microseconds pull_spin{100};
/// As long a reader waits himself before he lets go of what others need (Python's lock).
constexpr std::chrono::microseconds reader_spin{50};
constexpr std::chrono::microseconds fence_pause{50};

bool is_device(Buffer const& frame) { return frame.kind() == MemoryKind::device; }

bool all_ready(Frames const& frames) {
  return std::ranges::all_of(frames, [](Buffer const& frame) { return frame.ready(); });
}

std::vector<iovec> device_pieces(Frames const& frames) {
  std::vector<iovec> pieces;
  for (Buffer const& frame : frames) {
    if (is_device(frame) && !frame.empty()) pieces.push_back({const_cast<std::byte*>(frame.data()), frame.nbytes()});
  }
  return pieces;
}

Buffer host_copy(Buffer const& frame, Resource& resource) {
  Buffer host = Buffer::allocate(frame.nbytes(), resource);
  Copy const copy{.to = host.writable().data(), .from = frame.data(), .nbytes = frame.nbytes()};
  copy_to_host({&copy, 1}, frame.device());
  return host;
}

/// Copies between device frames and as many bytes of host memory one after the other; waits for nothing else that the device does.
template <class Step>
void through_ring(int device, bool outward, std::span<Buffer* const> on_device, Step step) {
  StagingRing ring(device, outward);
  for (Buffer* const frame : on_device) ring.add(const_cast<std::byte*>(frame->data()), frame->nbytes());
  while (!ring.done()) {
    std::span<std::byte> const bytes = ring.next();
    step(bytes);
    ring.advance(bytes.size());
  }
}

int device_of(Frames const& frames) {
  auto const first = std::ranges::find_if(frames, is_device);
  return first == frames.end() ? host_twin : first->device();
}

}  // namespace

void Session::take_way(Lock const&, DeviceWay& way, std::string path, std::string reason) {
  if (way.path == path && way.reason == reason) return;
  decisions_.take(way.direction, path, reason);
  way.path = std::move(path);
  way.reason = std::move(reason);
}

// ── out ──────────────────────────────────────────────────────────────────────────────────────────────────

/// For a peer that takes no memory of GPUs.
void Session::bring_to_host(Frames& frames) {
  while (!all_ready(frames)) std::this_thread::sleep_for(fence_pause);
  for (Buffer& frame : frames) {
    if (is_device(frame)) frame = host_copy(frame, resource_);
  }
  Lock const lock(mutex_);
  take_way(lock, device_out_, "host", "the peer takes no memory of a GPU");
}

/// Whether all device frames are few bytes, for a peer that takes such with the body, and can be copied at once.
bool Session::may_inline(Frames const& frames) const {
  if (setup_.same_process || !knows_inlined(setup_.theirs.kinds)) return false;
  std::uint64_t nbytes = 0;
  for (Buffer const& frame : frames) nbytes += is_device(frame) ? frame.nbytes() : 0;
  if (nbytes == 0 || nbytes > setup_.options.inline_device_nbytes) return false;
  try {
    return all_ready(frames);
  } catch (Error const&) {  // of the device: told where its work is waited for
    return false;
  }
}

/// Replaces device frames by copies in host memory, by one wait for the device.
void Session::inline_device(Frames& frames, std::vector<FrameKind>& kinds) {
  std::vector<Buffer*> on_device;
  std::vector<std::uint64_t> sizes;
  for (Buffer& frame : frames) {
    if (!is_device(frame)) continue;
    on_device.push_back(&frame);
    sizes.push_back(frame.nbytes());
  }
  Buffer all = Buffer::allocate(std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}), resource_);
  std::byte* at = all.writable().data();
  through_ring(device_of(frames), true, on_device, [&](std::span<std::byte> bytes) { at = std::ranges::copy(bytes, at).out; });
  auto const keeper = std::make_shared<Buffer>(std::move(all));
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < on_device.size(); offset += sizes[i++]) *on_device[i] = Buffer::borrow(keeper->bytes().subspan(offset, sizes[i]), keeper);
  std::ranges::replace(kinds, FrameKind::device, FrameKind::inlined);
  Lock const lock(mutex_);
  take_way(lock, device_out_, "inline", cat("up to ", setup_.options.inline_device_nbytes, " bytes go with the message"));
}

/// Where the peer finds the device frames; nothing where it cannot read them there.
std::vector<ExportedMemory> Session::exports_of(Frames const& frames) {
  std::string why_not;
  std::vector<ExportedMemory> exported;
  if (setup_.same_process) {
    Lock const lock(mutex_);
    take_way(lock, device_out_, "process", {});
    return {};
  }
  if (!apart_.empty()) {
    why_not = apart_;
  } else if (!setup_.options.exports || !setup_.theirs.exports) {
    why_not = "CUDA IPC is turned off";
  } else if (Lock const lock(mutex_); peer_opens_nothing_) {
    why_not = "the peer cannot open exported memory";
  }
  for (std::size_t i = 0; i < frames.size() && why_not.empty(); ++i) {
    if (!is_device(frames[i])) continue;
    if (frames[i].empty()) {  // of no allocation
      exported.emplace_back();
      continue;
    }
    auto memory = export_memory(frames[i].bytes(), frames[i].device(), why_not);
    if (memory) exported.push_back(*memory);
  }
  if (!why_not.empty()) exported.clear();
  Lock const lock(mutex_);
  take_way(lock, device_out_, why_not.empty() ? "CUDA IPC" : "staged", why_not);
  return exported;
}

/// Whether the message's device frames may be read. If not, somebody looks again soon.
bool Session::ready(Lock const&, std::shared_ptr<Outgoing> const& message) {
  auto const self = shared_from_this();
  auto const failed = [self](Error const& error) { self->home_.post([self, error] { self->fail(error.kind(), error.what()); }); };
  try {
    if (all_ready(message->frames)) return true;
  } catch (Error const& error) {
    failed(error);
    return false;
  }
  if (std::exchange(awaits_fence_, true)) return false;
  home_.post([self, message, failed] {
    self->home_.when([self, message] { return self->ended_ || all_ready(message->frames); },
                     [self, failed](Error const* error) {
                       if (error != nullptr) return failed(*error);
                       Lock lock(self->mutex_);
                       self->awaits_fence_ = false;
                       self->pump_from(lock);
                     });
  });
  return false;
}

/// The started message of this number whose device frames the peer may still fetch; else null.
std::shared_ptr<Outgoing> Session::unfetched(Lock const&, std::uint64_t number) const {
  std::uint64_t const at = nstarted_ > 0 ? number - queue_.front()->number : 0;  // they are numbered without gaps
  return at < nstarted_ && queue_[at]->waits_for_peer() ? queue_[at] : nullptr;
}

void Session::take_fetch(Record const& record) {
  Lock lock(mutex_);
  auto message = unfetched(lock, record.number);
  expects(message != nullptr, ErrorKind::malformed, [&] { return cat("a fetch of message ", record.number, ", which has no device frames to fetch"); });
  message->asked = true;
  if (record.unable) {
    peer_opens_nothing_ = true;
    take_way(lock, device_out_, "staged", "the peer cannot open exported memory");
  } else if (message->exported && !peer_opens_nothing_) {
    take_way(lock, device_out_, "staged", "the peer had no device memory for what is exported");
  }
  message->exported = false;
  fetches_.push_back(std::move(message));
  pump_from(lock);
}

void Session::take_fetched(Record const& record) {
  std::shared_ptr<Outgoing> message;
  {
    Lock const lock(mutex_);
    message = unfetched(lock, record.number);
    expects(message != nullptr && message->exported, ErrorKind::malformed,
            [&] { return cat("message ", record.number, " was fetched, which exported nothing"); });
    message->asked = true;
  }
  part_written(std::move(message), 0);
}

/// Puts device frames on their way that were asked for, once there are streams for them or there will be none.
void Session::send_fetched(Lock const& lock) {
  want_lanes(lock);
  while (!fetches_.empty() && (lanes_state_ == Lanes::ready || lanes_state_ == Lanes::failed)) {
    auto const message = fetches_.front();
    unsigned const nstreams = usable_lanes_;
    if (nstreams == 0 && message->staged.empty()) {
      home_.post([self = shared_from_this(), message] { self->stage(message); });
      return;
    }
    fetches_.pop_front();
    std::uint32_t const chunk = nstreams > 0 ? chunk_for(message->device_nbytes, nstreams) : 0;
    pack_record({.type = RecordType::device, .nstreams = static_cast<std::uint8_t>(nstreams), .chunk_nbytes = chunk, .number = message->number}, records_);
    if (nstreams == 0) {
      plan_begun_.push_back(message);  // the bytes come right behind the record
      return;
    }
    auto const pieces = device_pieces(message->frames);
    int const device = device_of(message->frames);
    --message->parts;
    for (unsigned i = 0; i < nstreams; ++i) {
      Pieces part = share(pieces, nstreams, i, chunk);
      if (part.done()) continue;
      ++message->parts;
      lanes_[i]->send(message, Part(std::move(part), device, true));
    }
  }
}

/// Without further streams: brings device frames to host memory, to follow their record on the first stream.
void Session::stage(std::shared_ptr<Outgoing> const& message) {
  if (!message->staged.empty()) return;
  Frames staged;
  try {
    for (Buffer const& frame : message->frames) {
      if (is_device(frame)) staged.push_back(host_copy(frame, resource_));
    }
  } catch (Error const& error) {
    return fail(error.kind(), error.what());
  } catch (std::bad_alloc const&) {
    return fail(ErrorKind::exhausted, "no memory for device frames");
  }
  Lock lock(mutex_);
  if (error_) return;
  message->staged = std::move(staged);
  pump_from(lock);
}

// ── in ───────────────────────────────────────────────────────────────────────────────────────────────────

/// Has memory made for the device frames of a message that somebody asks for.
void Session::land_device(std::shared_ptr<Incoming> const& message) {
  auto const self = shared_from_this();
  if (setup_.options.landing && setup_.options.landing_on_device) {
    Announced announced{message->device_sizes, std::vector(message->device_sizes.size(), FrameKind::device)};
    setup_.options.landing(std::move(announced), [weak = weak_from_this(), message](Frames frames, Error const* error) {
      auto const self = weak.lock();
      if (self == nullptr) return;
      self->home_.post([self, message, frames = std::move(frames), why = error != nullptr ? std::optional(*error) : std::nullopt]() mutable {
        self->device_landed(message, std::move(frames), why);
      });
    });
    return;
  }
  Frames frames;
  try {
    for (std::uint64_t const nbytes : message->device_sizes) frames.push_back(Buffer::allocate(nbytes, *setup_.options.device_resource));
  } catch (std::exception const&) {  // whoever takes the message sees where it lies
    frames.clear();
  }
  try {
    if (frames.empty()) frames = make_landing(message->device_sizes, resource_);
  } catch (Error const& error) {
    return fail(error.kind(), error.what());
  } catch (std::bad_alloc const&) {
    return fail(ErrorKind::exhausted, "no memory for device frames");
  }
  device_landed(message, std::move(frames), {});
}

/// Brings frames that came with the body to the device, by one wait for it. Without room there they stay in host memory.
void Session::land_inlined(Frames& frames, std::vector<std::size_t> const& inlined) {
  Frames landed;
  std::vector<Buffer*> on_device;
  std::size_t next = 0;
  std::size_t passed = 0;  // bytes of that frame
  auto const no_room = [&] {  // whoever takes the message sees where it lies
    Lock const lock(mutex_);
    take_way(lock, device_in_, "host", "no device memory for them here");
  };
  try {
    for (std::size_t const i : inlined) landed.push_back(Buffer::allocate(frames[i].nbytes(), *setup_.options.device_resource));
  } catch (std::exception const&) {
    return no_room();
  }
  for (Buffer& frame : landed) on_device.push_back(&frame);
  try {
    through_ring(setup_.options.device_resource->device(), false, on_device, [&](std::span<std::byte> bytes) {
      while (!bytes.empty()) {
        auto const left = frames[inlined[next]].bytes().subspan(passed);
        std::size_t const n = std::min(left.size(), bytes.size());
        std::ranges::copy(left.first(n), bytes.begin());
        bytes = bytes.subspan(n);
        passed = n == left.size() ? 0 : passed + n;
        if (passed == 0) ++next;
      }
    });
  } catch (Error const& error) {
    if (error.kind() == ErrorKind::exhausted) return no_room();
    fail(error.kind(), error.what());
    throw;
  } catch (std::bad_alloc const&) {  // for the ring
    return no_room();
  }
  for (std::size_t i = 0; i < inlined.size(); ++i) frames[inlined[i]] = std::move(landed[i]);
  Lock const lock(mutex_);
  take_way(lock, device_in_, "inline", {});
}

/// Whether the next message has come but for device frames, which whoever takes it lets land.
bool Session::offers(Lock const&) const {
  if (!setup_.options.lands_when_received || opens_nothing_ || error_ || closing_ || !ready_.empty() || incoming_.empty()) return false;
  Incoming const& next = *incoming_.front();
  return next.device == Incoming::Device::wanted && next.parts == 1 && !next.exported.empty();
}

/// Puts fresh memory for device frames where they belong. False, with the connection at its end: it does not fit.
bool Session::place(std::shared_ptr<Incoming> const& message, Frames frames) {
  bool fits = frames.size() == message->device_sizes.size();
  bool const on_device = fits && is_device(frames.front());
  for (std::size_t i = 0; fits && i < frames.size(); ++i) {
    fits = frames[i].nbytes() == message->device_sizes[i] && !frames[i].readonly() && (frames[i].empty() || is_device(frames[i]) == on_device) &&
           (!on_device || frames[i].device() == frames.front().device());
  }
  if (!fits) {
    fail(ErrorKind::failed, "the memory made for device frames is not of their sizes, or not all of one kind");
    return false;
  }
  Lock const lock(mutex_);
  for (std::size_t i = 0; i < frames.size(); ++i) message->frames[message->device_frames[i]] = std::move(frames[i]);
  message->device = Incoming::Device::landed;
  return !error_;
}

void Session::device_landed(std::shared_ptr<Incoming> const& message, Frames frames, std::optional<Error> const& error) {
  if (error) return fail(error->kind(), error->what());
  if (message->device != Incoming::Device::landing) return;  // told twice
  if (place(message, std::move(frames))) fetch_when_usable(message);
}

/// The memory may be in use still by work that its device was given before.
void Session::fetch_when_usable(std::shared_ptr<Incoming> const& message) {
  auto const self = shared_from_this();
  home_.when([self, message] { return self->ended_ || all_ready(message->frames); },
             [self, message](Error const* error) {
               if (error != nullptr) return self->fail(error->kind(), error->what());
               self->fetch(message);
             });
}

/// On the thread of whoever takes the message: reads its device frames, or has them fetched where that does not go at once.
void Session::land_now(std::shared_ptr<Incoming> const& message, LandNow const& land) {
  auto const self = shared_from_this();
  try {
    Frames frames;
    try {
      frames = land({message->device_sizes, std::vector(message->device_sizes.size(), FrameKind::device)});
    } catch (Error const&) {
      throw;
    } catch (...) {  // of the reader's own: it may try again
      Lock const lock(mutex_);
      message->device = Incoming::Device::wanted;
      throw;
    }
    if (!place(message, std::move(frames))) return;
    std::string unable;
    std::unique_ptr<Pull> pull;
    if (is_device(message->frames[message->device_frames.front()]) && all_ready(message->frames)) pull = begin_pull(message, unable);
    if (pull == nullptr) {
      home_.post([self, message, unable] {
        if (!unable.empty()) return self->ask_for(message, unable);
        self->fetch_when_usable(message);
      });
      return;
    }
    {
      Lock const lock(mutex_);
      if (error_) return;
      message->pull = std::move(pull);
      pulling_ = message;
    }
    (void)look_at_pull(reader_spin);
  } catch (Error const& error) {
    fail(error.kind(), error.what());
  }
}

bool Session::reads_device() const {
  if (foreign()) return false;
  Lock const lock(mutex_);
  return pulling_ != nullptr;
}

bool Session::wait_device(std::chrono::microseconds budget) {
  if (look_at_pull(budget)) return true;
  Lock const lock(mutex_);
  if (pulling_ == nullptr) return false;
  home_.post([self = shared_from_this(), message = std::exchange(pulling_, {})] {
    self->home_.when([message] { return message->pull->done(); }, [self, message](Error const* error) { self->pulled(message, error); });
  });
  return false;
}

/// On the reader's thread, for `patience` at most: whether the device frames that are being read have come.
bool Session::look_at_pull(std::chrono::microseconds patience) {
  std::shared_ptr<Incoming> message;
  {
    Lock const lock(mutex_);
    message = pulling_;
  }
  if (message == nullptr) return false;
  try {
    auto const end = Clock::now() + patience;
    while (!message->pull->done()) {
      if (Clock::now() >= end) return false;
      std::this_thread::yield();
    }
  } catch (Error const& error) {
    fail(error.kind(), error.what());
    return false;
  }
  {
    Lock const lock(mutex_);
    pulling_.reset();
  }
  pulled(message, nullptr);
  return true;
}

/// Null where it cannot be opened; `unable` says why.
std::unique_ptr<Pull> Session::begin_pull(std::shared_ptr<Incoming> const& message, std::string& unable) {
  std::vector<ExportedMemory> from;
  std::vector<void*> to;
  for (std::size_t i = 0; i < message->exported.size(); ++i) {
    if (message->exported[i].nbytes == 0) continue;
    from.push_back(message->exported[i]);
    to.push_back(message->frames[message->device_frames[i]].writable().data());
  }
  try {
    return pull(from, to, device_of(message->frames), setup_.theirs.host.process);
  } catch (Error const& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    unable = error.what();
    return nullptr;
  }
}

/// There is memory for the device frames: reads them where they lie, or asks for them.
void Session::fetch(std::shared_ptr<Incoming> const& message) {
  std::string unable;
  bool reads = is_device(message->frames[message->device_frames.front()]) && !message->exported.empty();
  {
    Lock const lock(mutex_);
    if (error_) return;
    reads = reads && !opens_nothing_;
  }
  if (reads) {
    try {
      auto pull = begin_pull(message, unable);
      Lock const lock(mutex_);
      message->pull = std::move(pull);
    } catch (Error const& error) {
      return fail(error.kind(), error.what());
    }
  }
  if (message->pull == nullptr) return ask_for(message, unable);
  home_.when([message] { return message->pull->done(); }, [self = shared_from_this(), message](Error const* error) { self->pulled(message, error); }, pull_spin);
}

void Session::ask_for(std::shared_ptr<Incoming> const& message, std::string const& unable) {
  bool const on_device = is_device(message->frames[message->device_frames.front()]);
  Lock lock(mutex_);
  if (error_) return;
  opens_nothing_ = opens_nothing_ || !unable.empty();
  message->device = Incoming::Device::asked;
  message->why_fetched = on_device ? unable : "no device memory for them here";
  pack_record({.type = RecordType::fetch, .unable = !unable.empty(), .number = message->number}, records_);
  pump_from(lock);
}

void Session::pulled(std::shared_ptr<Incoming> const& message, Error const* error) {
  if (error != nullptr) return fail(error->kind(), error->what());
  // A peer that has let go of the memory ended the connection before that: what was read may be somebody else's.
  if (first_ == nullptr || first_->hung_up()) return fail(ErrorKind::disconnected, "the peer is gone, in the midst of a message");
  moved();
  {
    Lock lock(mutex_);
    if (error_) return;
    message->pull.reset();
    message->device = Incoming::Device::coming;
    take_way(lock, device_in_, "CUDA IPC", {});
    pack_record({.type = RecordType::fetched, .number = message->number}, records_);
    pump_from(lock);
  }
  part_read(message, 0);
}

/// The device frames that were asked for follow.
void Session::take_device(Record const& record) {
  std::vector<std::pair<std::shared_ptr<Lane>, Part>> parts;
  std::shared_ptr<Incoming> message;
  Calls calls;
  Lock const lock(mutex_);
  if (error_) return;
  if (!incoming_.empty()) message = incoming_.front();
  expects(message != nullptr && message->number == record.number && message->device == Incoming::Device::asked, ErrorKind::malformed,
          [&] { return cat("device frames of message ", record.number, ", which were not asked for"); });
  expects(record.nstreams <= usable_lanes_, ErrorKind::malformed,
          [&] { return cat("device frames of message ", record.number, " over ", static_cast<unsigned>(record.nstreams), " streams of ", usable_lanes_); });
  message->device = Incoming::Device::coming;
  int const device = device_of(message->frames);
  bool const on_device = is_device(message->frames[message->device_frames.front()]);
  if (record.nstreams == 0) {
    if (on_device) {
      Frames host = make_landing(message->device_sizes, resource_);
      for (std::size_t i = 0; i < host.size(); ++i) message->frames[message->device_frames[i]] = std::move(host[i]);
      message->why_fetched += cat(message->why_fetched.empty() ? "" : "; ", "there are no further streams");
    }
    take_way(lock, device_in_, "host", message->why_fetched);
    for (std::size_t const i : message->device_frames) message->first.add(message->frames[i].data(), message->frames[i].nbytes());
    if (!message->first.done()) {
      body_ = message;
      return;
    }
  } else {
    take_way(lock, device_in_, on_device ? "staged" : "host", message->why_fetched);
    std::vector<iovec> pieces;
    for (std::size_t const i : message->device_frames) {
      Buffer& frame = message->frames[i];
      if (!frame.empty()) pieces.push_back({frame.writable().data(), frame.nbytes()});
    }
    for (unsigned i = 0; i < record.nstreams; ++i) {
      Pieces part = share(pieces, record.nstreams, i, record.chunk_nbytes);
      if (part.done()) continue;
      ++message->parts;
      lanes_[i]->receive(message, on_device ? Part(std::move(part), device, false) : Part(std::move(part)));
    }
  }
  --message->parts;  // there is nothing to wait for but its streams
  if (message->parts == 0) deliver(lock, calls);
}

}  // namespace transload::transport
