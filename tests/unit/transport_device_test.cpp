// Frames in a GPU's memory between two ends, over the host twin: fetched when somebody asks, read where they lie or through staging rings.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/raw_peer.hpp"
#include "support/transport.hpp"
#include "transload/memory/device.hpp"

namespace transload::test {
namespace {

/// "Device" memory, counted; `room` bytes of it.
class Twin final : public Resource {
 public:
  std::span<std::byte> allocate(std::size_t nbytes) override {
    std::size_t const used = used_ += nbytes;
    if (used > room) {
      used_ -= nbytes;
      raise(ErrorKind::exhausted, "no room in the twin");
    }
    return nbytes == 0 ? std::span<std::byte>() : std::span(new std::byte[nbytes], nbytes);
  }
  void deallocate(std::span<std::byte> block) noexcept override {
    used_ -= block.size();
    delete[] block.data();
  }
  [[nodiscard]] MemoryKind kind() const noexcept override { return MemoryKind::device; }
  [[nodiscard]] int device() const noexcept override { return host_twin; }
  [[nodiscard]] std::size_t used() const noexcept { return used_; }

  std::atomic<std::size_t> room = std::size_t{1} << 40;

 private:
  std::atomic<std::size_t> used_{0};
};

/// Frames of these sizes; those with a letter d are device frames.
Frames mixed(std::vector<std::size_t> const& sizes, std::string const& kinds, unsigned seed = 0, Fence const& fence = {}) {
  Frames frames = patterns(sizes, seed);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (kinds[i] != 'd') continue;
    auto const keeper = frames[i].keeper();
    frames[i] = Buffer::borrow_device(frames[i].writable(), keeper, host_twin, fence);
  }
  return frames;
}

std::string kinds_of(Frames const& frames) {
  std::string kinds;
  for (Buffer const& frame : frames) kinds += frame.kind() == MemoryKind::device ? 'd' : 'h';
  return kinds;
}

std::vector<std::string> decisions_on(Connection const& connection, std::string const& place) {
  std::vector<std::string> found;
  for (Decision const& decision : connection.stats().decisions) {
    if (decision.place == place) found.push_back(cat(decision.choice, ": ", decision.reason));
  }
  return found;
}

struct Way {
  Path path;
  bool exports;
};

class TransportDevice : public ::testing::TestWithParam<Way> {
 protected:
  TransportOptions options() {
    TransportOptions options = options_for(GetParam().path);
    options.device_resource = &twin;
    options.exports = GetParam().exports;
    return options;
  }
  /// How device frames lie where they arrive: without further streams they come to host memory.
  [[nodiscard]] char arrives() const { return GetParam().path == Path::tcp && !GetParam().exports ? 'h' : 'd'; }
  [[nodiscard]] std::string path() const {
    if (GetParam().path == Path::process) return "process";
    return GetParam().exports ? "CUDA IPC" : "staged";
  }
  Twin twin;
};

INSTANTIATE_TEST_SUITE_P(, TransportDevice,
                         ::testing::Values(Way{Path::tcp, false}, Way{Path::tcp, true}, Way{Path::tcp_streams, false}, Way{Path::tcp_streams, true},
                                           Way{Path::shared_memory, false}, Way{Path::shared_memory, true}, Way{Path::process, false}),
                         [](auto const& info) {
                           return path_name({info.param.path, 0}) + (info.param.exports ? "_exported" : "");
                         });

TEST_P(TransportDevice, FramesOfBothKindsArriveAsTheyWere) {
  Pair pair(options());
  std::vector<std::size_t> const sizes{100, 5 << 20, 5000, 1, 0, 700'000, 3, (1 << 20) + 13};
  std::string const kinds = "hdhdddhd";
  for (unsigned round = 0; round < 3; ++round) {
    expect_sent(pair.a, mixed(sizes, kinds, 10 * round));
    Frames const frames = expect_message(pair.b);
    expect_patterns(frames, sizes, 10 * round);
    std::string wanted = kinds;
    std::ranges::replace(wanted, 'd', arrives());
    EXPECT_EQ(kinds_of(frames), wanted);
  }
  EXPECT_EQ(pair.a.stats().device_path, path());
  expect_sent(pair.b, mixed(sizes, kinds, 5));
  expect_patterns(expect_message(pair.a), sizes, 5);
  EXPECT_EQ(pair.a.stats().nbytes_sent, pair.b.stats().nbytes_received);
}

TEST_P(TransportDevice, FewBytesGoWithTheMessage) {
  Pair pair(options());
  std::vector<std::size_t> const sizes{100, 1024, 5000, 0, 6000, 30'000, 1};
  for (unsigned round = 0; round < 3; ++round) {
    expect_sent(pair.a, mixed(sizes, "hdhdddd", 10 * round));
    Frames const frames = expect_message(pair.b);
    expect_patterns(frames, sizes, 10 * round);
    EXPECT_EQ(kinds_of(frames), "hdhdddd");  // on the device, also where there are no further streams
  }
  std::string const way = GetParam().path == Path::process ? "process" : "inline";
  EXPECT_EQ(pair.a.stats().device_path, way);
  EXPECT_EQ(pair.b.stats().device_path, GetParam().path == Path::process ? "" : "inline");
  EXPECT_EQ(pair.a.stats().nbytes_sent, pair.b.stats().nbytes_received);
  if (GetParam().path == Path::process) return;
  EXPECT_EQ(decisions_on(pair.a, "device frames out"), std::vector<std::string>{"inline: up to 65536 bytes go with the message"});
  EXPECT_EQ(decisions_on(pair.b, "device frames in"), std::vector<std::string>{"inline: "});
  expect_sent(pair.a, mixed({30'000, 40'000}, "dd"));  // more than 64 KiB together
  expect_patterns(expect_message(pair.b), {30'000, 40'000});
  EXPECT_EQ(pair.a.stats().device_path, path());
}

TEST_P(TransportDevice, FewBytesThatAreNotReadyAreFetched) {
  if (GetParam().path == Path::process) return;
  Pair pair(options());
  std::atomic<bool> done{false};
  auto const told = send(pair.a, mixed({10, 1000}, "hd", 1, [&] { return done.load(); }));  // returns at once
  done = true;
  expect_patterns(expect_message(pair.b), {10, 1000}, 1);
  EXPECT_EQ(pair.a.stats().device_path, path());
}

TEST_P(TransportDevice, FewBytesWithoutRoomStayInHostMemory) {
  if (GetParam().path == Path::process) return;
  Pair pair(options());
  twin.room = 1500;
  for (std::size_t const n : {1000, 2000, 1000}) {
    expect_sent(pair.a, mixed({10, n, 10}, "hdd", 1));
    Frames const frames = expect_message(pair.b);
    expect_patterns(frames, {10, n, 10}, 1);
    EXPECT_EQ(kinds_of(frames), n == 1000 ? "hdd" : "hhh");
  }
  EXPECT_EQ(twin.used(), 0u);
  EXPECT_EQ(decisions_on(pair.b, "device frames in"), (std::vector<std::string>{"inline: ", "host: no device memory for them here", "inline: "}));
}

TEST_P(TransportDevice, NothingGoesWithTheMessageWhereEitherEndHasItNot) {
  if (GetParam().path == Path::process) return;
  TransportOptions off = options();
  off.inline_device_nbytes = 0;
  Pair never(off);
  expect_sent(never.a, mixed({1000}, "d"));
  expect_patterns(expect_message(never.b), {1000});
  EXPECT_EQ(never.a.stats().device_path, path());

  TransportOptions lands = options();  // whose memory comes from elsewhere
  lands.device_resource = nullptr;
  lands.landing_on_device = true;
  lands.landing = [this](Announced announced, Received landed) {
    Frames frames;
    for (std::uint64_t const nbytes : announced.sizes) frames.push_back(Buffer::allocate(nbytes, twin));
    landed(std::move(frames), nullptr);
  };
  Pair elsewhere(options(), lands);
  expect_sent(elsewhere.b, mixed({1000}, "d"));
  expect_patterns(expect_message(elsewhere.a), {1000});
  EXPECT_EQ(elsewhere.b.stats().device_path, path());
}

TEST_P(TransportDevice, FewBytesArriveInMessagesThatAreAnnounced) {
  TransportOptions narrow = options();
  narrow.window_nbytes = 1000;
  narrow.landing = [](Announced announced, Received landed) {
    EXPECT_TRUE(std::ranges::none_of(announced.kinds, [](FrameKind kind) { return kind > FrameKind::object; }));
    landed(make_landing(announced.sizes, default_resource()), nullptr);
  };
  Pair pair(narrow);
  std::vector<FrameKind> const kinds{FrameKind::object, FrameKind::plain, FrameKind::plain};
  pair.a.send(mixed({3 << 20, 2000, 900}, "hdh", 1), {}, kinds);
  Frames const frames = expect_message(pair.b);
  expect_patterns(frames, {3 << 20, 2000, 900}, 1);
  EXPECT_EQ(kinds_of(frames), "hdh");
}

TEST_P(TransportDevice, DeviceFramesWithoutBytesArrive) {
  Pair pair(options());
  for (std::vector<std::size_t> const& sizes : {std::vector<std::size_t>{0}, {0, 0, 10}, {0, 1 << 20, 0}}) {
    expect_sent(pair.a, mixed(sizes, "ddd"));
    expect_patterns(expect_message(pair.b), sizes);
  }
}

TEST_P(TransportDevice, ManyMessagesKeepTheirOrder) {
  Pair pair(options());
  unsigned const n = 60;
  std::vector<std::vector<std::size_t>> sizes;
  std::vector<std::string> kinds;
  for (unsigned i = 0; i < n; ++i) {
    sizes.push_back({50 + i, std::size_t{i % 7} * 300'000 + 1, std::size_t{i % 3} * 900'000, 20});
    kinds.push_back(i % 4 == 0 ? "hhhh" : i % 4 == 1 ? "hdhd" : i % 4 == 2 ? "dddd" : "hdhh");
    (void)send(pair.a, mixed(sizes[i], kinds[i], i));
  }
  for (unsigned i = 0; i < n; ++i) expect_patterns(expect_message(pair.b), sizes[i], i);
}

TEST_P(TransportDevice, ASenderKeepsItsMemoryUntilItWasRead) {
  Pair pair(options());
  std::atomic<int> alive{0};
  {
    Frames frames;
    auto const bytes = std::make_shared<std::vector<std::byte>>(pattern(3 << 20));
    ++alive;
    std::shared_ptr<void const> const keeper(bytes->data(), [bytes, &alive](void const*) { --alive; });
    frames.push_back(Buffer::borrow_device(*bytes, keeper, host_twin));
    expect_sent(pair.a, std::move(frames));
  }
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(alive, 1);  // nobody has asked for it
  {
    Frames const frames = expect_message(pair.b);
    expect_patterns(frames, {3 << 20});
    if (GetParam().path != Path::process) {
      EXPECT_TRUE(eventually([&] { return alive == 0; }));
    }
  }
  EXPECT_TRUE(eventually([&] { return alive == 0; }));
}

TEST_P(TransportDevice, ASenderWaitsForTheWorkThatMakesTheBytes) {
  Pair pair(options());
  std::atomic<bool> done{false};
  auto const told = send(pair.a, mixed({10, 2 << 20}, "hd", 1, [&] { return done.load(); }));
  (void)send(pair.a, patterns({100}, 9));
  auto const came = receive(pair.b);
  if (GetParam().path == Path::process) {  // by reference: the buffer itself says when
    Ended const ended = came->wait();
    ASSERT_EQ(ended.frames.size(), 2u);
    EXPECT_FALSE(ended.frames[1].ready());
    done = true;
    EXPECT_TRUE(ended.frames[1].ready());
    return;
  }
  EXPECT_FALSE(came->there(200ms));
  done = true;
  expect_patterns(came->wait().frames, {10, 2 << 20}, 1);
  expect_patterns(expect_message(pair.b), {100}, 9);
}

TEST_P(TransportDevice, WorkThatFailsEndsTheConnectionInWords) {
  if (GetParam().path == Path::process) return;
  Pair pair(options());
  std::atomic<int> asked{0};
  (void)send(pair.a, mixed({10, 2 << 20}, "hd", 1, [&]() -> bool {
    if (++asked < 4) return false;
    raise(ErrorKind::failed, "the device: an illegal address");
  }));
  EXPECT_NE(expect_end(pair.a, ErrorKind::failed).find("an illegal address"), std::string::npos);
  expect_end(pair.b);
}

TEST_P(TransportDevice, WithoutDeviceMemoryForThemTheyComeToHostMemory) {
  if (GetParam().path == Path::process) return;
  Pair pair(options());
  twin.room = 1 << 20;
  expect_sent(pair.a, mixed({10, 2 << 20, 600'000}, "hdd", 1));
  {
    Frames const frames = expect_message(pair.b);
    expect_patterns(frames, {10, 2 << 20, 600'000}, 1);
    EXPECT_EQ(kinds_of(frames), "hhh");
  }
  EXPECT_EQ(twin.used(), 0u);
  expect_sent(pair.a, mixed({10, 500'000}, "hd", 2));  // the connection lives, and there is room for this one
  Frames const frames = expect_message(pair.b);
  expect_patterns(frames, {10, 500'000}, 2);
  EXPECT_EQ(kinds_of(frames)[1], arrives());
}

TEST_P(TransportDevice, APeerThatTakesNoneGetsHostMemory) {
  TransportOptions takes_none = options();
  takes_none.device_resource = nullptr;
  Pair pair(options(), takes_none);
  expect_sent(pair.b, mixed({10, 2 << 20}, "hd", 1));
  Frames const frames = expect_message(pair.a);
  expect_patterns(frames, {10, 2 << 20}, 1);
  EXPECT_EQ(kinds_of(frames), "hh");
  EXPECT_EQ(pair.b.stats().device_path, "host");
}

TEST_P(TransportDevice, AReaderThatTakesItsTimeIsNoStall) {
  TransportOptions patient = options();
  patient.stall_timeout = 1s;
  Pair pair(patient);
  expect_sent(pair.a, mixed({10, 2 << 20}, "hd", 1));
  std::this_thread::sleep_for(2500ms);
  expect_patterns(expect_message(pair.b), {10, 2 << 20}, 1);
}

TEST_P(TransportDevice, ReceiverAbortsInTheMidst) {
  for (int round = 0; round < 12; ++round) {
    Pair pair(options());
    auto const sent = send(pair.a, mixed({10, 4 << 20}, "hd", 1));
    auto const came = receive(pair.b);
    std::this_thread::sleep_for(std::chrono::microseconds(150 * round));
    pair.b.abort();
    (void)came->wait();
    expect_end(pair.a);
  }
  EXPECT_TRUE(eventually([&] { return twin.used() == 0; }));
}

TEST_P(TransportDevice, SenderAbortsInTheMidst) {
  for (int round = 0; round < 12; ++round) {
    Pair pair(options());
    (void)send(pair.a, mixed({10, 4 << 20}, "hd", 1));
    auto const came = receive(pair.b);
    std::this_thread::sleep_for(std::chrono::microseconds(150 * round));
    pair.a.abort();
    Ended const ended = came->wait();
    if (!ended.kind) expect_patterns(ended.frames, {10, 4 << 20}, 1);  // whole, or not at all
  }
  EXPECT_TRUE(eventually([&] { return twin.used() == 0; }));
}

TEST_P(TransportDevice, CloseWaitsUntilTheFramesWereFetched) {
  Pair pair(options());
  (void)send(pair.a, mixed({10, 3 << 20}, "hd", 1));
  auto const came = receive(pair.b);
  auto const closed = close(pair.a);
  Ended const ended = came->wait();
  EXPECT_FALSE(ended.kind) << ended.what;
  expect_patterns(ended.frames, {10, 3 << 20}, 1);
  EXPECT_FALSE(closed->wait().kind);
}

TEST_P(TransportDevice, ALandingMakesTheMemory) {
  TransportOptions with_landing = options();
  with_landing.device_resource = nullptr;
  with_landing.landing_on_device = true;
  auto const asked = std::make_shared<std::atomic<int>>(0);
  std::atomic<bool> usable{false};
  with_landing.landing = [&, asked](Announced announced, Received landed) {
    ++*asked;
    Frames frames;
    for (std::size_t i = 0; i < announced.sizes.size(); ++i) {
      EXPECT_EQ(announced.kinds[i], FrameKind::device);
      auto const block = std::make_shared<std::vector<std::byte>>(announced.sizes[i]);
      frames.push_back(Buffer::borrow_device(*block, block, host_twin, [&] { return usable.load(); }));
    }
    landed(std::move(frames), nullptr);
  };
  Pair pair(with_landing);
  expect_sent(pair.a, mixed({10, 2 << 20}, "hd", 1));
  auto const came = receive(pair.b);
  if (GetParam().path != Path::process) {
    EXPECT_FALSE(came->there(200ms));  // somebody may still use the memory
    EXPECT_EQ(*asked, 1);
  }
  usable = true;
  expect_patterns(came->wait().frames, {10, 2 << 20}, 1);
}

TEST_P(TransportDevice, BodiesAboveTheWindowAreAnnouncedAsEver) {
  TransportOptions narrow = options();
  narrow.window_nbytes = 1000;
  Pair pair(narrow);
  for (unsigned i = 0; i < 5; ++i) {
    (void)send(pair.a, mixed({3 << 20, 2 << 20, 900}, "hdh", i));
    expect_patterns(expect_message(pair.b), {3 << 20, 2 << 20, 900}, i);
  }
}

TEST_P(TransportDevice, WhoeverReceivesMayMakeTheMemory) {
  TransportOptions by_reader = options();
  by_reader.device_resource = nullptr;
  by_reader.landing_on_device = by_reader.lands_when_received = true;
  std::atomic<int> landings{0};
  by_reader.landing = [&](Announced announced, Received landed) {
    ++landings;
    Frames frames;
    for (std::uint64_t const nbytes : announced.sizes) frames.push_back(Buffer::allocate(nbytes, twin));
    landed(std::move(frames), nullptr);
  };
  Pair pair(by_reader);
  int lands = 0;
  for (unsigned round = 0; round < 4; ++round) {
    std::atomic<bool> usable{round % 2 == 0};
    expect_sent(pair.a, mixed({10, 2 << 20, 5000}, "hdh", round));
    Frames frames;
    auto const end = std::chrono::steady_clock::now() + 10s;
    std::thread later([&] {
      std::this_thread::sleep_for(50ms);
      usable = true;
    });
    for (bool there = false; !there && std::chrono::steady_clock::now() < end;) {
      Told<bool> readable;
      pair.b.when_readable([&] { readable.tell(true); });
      readable.wait();
      there = pair.b.try_receive(frames, [&](Announced const& announced) {
        ++lands;
        auto const block = std::make_shared<std::vector<std::byte>>(announced.sizes.at(0));
        Frames made;
        made.push_back(Buffer::borrow_device(*block, block, host_twin, [&] { return usable.load(); }));
        return made;
      });
    }
    later.join();
    expect_patterns(frames, {10, 2 << 20, 5000}, round);
    EXPECT_FALSE(pair.b.reads_device());
  }
  bool const reads = GetParam().exports && GetParam().path != Path::process;
  EXPECT_EQ(lands, reads ? 4 : 0);
  EXPECT_EQ(landings, reads || GetParam().path == Path::process ? 0 : 4);
}

TEST_P(TransportDevice, AReaderWithoutDeviceMemoryGetsHostMemory) {
  if (GetParam().path == Path::process) return;
  TransportOptions by_reader = options();
  by_reader.lands_when_received = true;
  Pair pair(by_reader);
  expect_sent(pair.a, mixed({10, 2 << 20, 5000}, "hdh", 3));
  Frames frames;
  for (bool there = false; !there;) {
    Told<bool> readable;
    pair.b.when_readable([&] { readable.tell(true); });
    if (!readable.wait()) break;
    there = pair.b.try_receive(frames, [&](Announced const& announced) { return make_landing(announced.sizes, default_resource()); });
  }
  expect_patterns(frames, {10, 2 << 20, 5000}, 3);
}

TEST_P(TransportDevice, WhatIsThrownWhileTheMemoryIsMadeLeavesTheMessageToTheNextReader) {
  if (GetParam().path == Path::process || !GetParam().exports) return;
  TransportOptions by_reader = options();
  by_reader.lands_when_received = true;
  Pair pair(by_reader);
  expect_sent(pair.a, mixed({10, 2 << 20, 5000}, "hdh", 3));
  Told<bool> readable;
  pair.b.when_readable([&] { readable.tell(true); });
  readable.wait();
  Frames frames;
  EXPECT_THROW((void)pair.b.try_receive(frames, [](Announced const&) -> Frames { throw std::bad_alloc(); }), std::bad_alloc);
  EXPECT_TRUE(pair.b.try_receive(frames, [&](Announced const& announced) {
    Frames made;
    for (std::uint64_t const nbytes : announced.sizes) made.push_back(Buffer::allocate(nbytes, twin));
    return made;
  }));
  expect_patterns(frames, {10, 2 << 20, 5000}, 3);
}

TEST_P(TransportDevice, AReaderThatMakesNoMemoryGetsThatOfTheOptions) {
  if (GetParam().path == Path::process) return;
  TransportOptions by_reader = options();
  by_reader.lands_when_received = true;
  Pair pair(by_reader);
  expect_sent(pair.a, mixed({10, 2 << 20, 5000}, "hdh", 3));
  expect_patterns(expect_message(pair.b), {10, 2 << 20, 5000}, 3);
}

/// As `operator new` says it.
class Full final : public Resource {
 public:
  std::span<std::byte> allocate(std::size_t) override { throw std::bad_alloc(); }
  void deallocate(std::span<std::byte>) noexcept override {}
  [[nodiscard]] MemoryKind kind() const noexcept override { return MemoryKind::device; }
  [[nodiscard]] int device() const noexcept override { return host_twin; }
};

TEST_P(TransportDevice, AResourceMaySayInTheLanguagesWordsThatItIsFull) {
  Full full;
  TransportOptions without_room = options();
  without_room.device_resource = &full;
  Pair pair(without_room);
  for (std::size_t const n : {2 << 20, 3000}) {
    auto const came = receive(pair.b);
    expect_sent(pair.a, mixed({10, n}, "hd", 1));
    expect_patterns(came->wait().frames, {10, n}, 1);
  }
}

TEST_P(TransportDevice, WhatWaitsForADeviceIsLetGoWithTheConnectionAndTheEngine) {
  if (GetParam().path == Path::process) return;
  std::atomic<int> alive{0};
  auto const send_unready = [&](Connection& connection) {
    auto const bytes = std::make_shared<std::vector<std::byte>>(pattern(1 << 20));
    ++alive;
    std::shared_ptr<void const> const keeper(bytes->data(), [bytes, &alive](void const*) { --alive; });
    Frames frames;
    frames.push_back(Buffer::borrow_device(*bytes, keeper, host_twin, [] { return false; }));
    (void)send(connection, std::move(frames));
    std::this_thread::sleep_for(20ms);
  };
  {
    Pair pair(options());
    send_unready(pair.a);
    pair.a.abort();
    EXPECT_TRUE(eventually([&] { return alive == 0; }));
  }
  {
    Pair pair(options());
    send_unready(pair.a);
  }
  EXPECT_EQ(alive, 0);
}

TEST_P(TransportDevice, MemoryThatIsToldTwiceIsTakenOnce) {
  if (GetParam().path == Path::process) return;
  auto const usable = std::make_shared<std::atomic<bool>>(false);
  TransportOptions twice = options();
  twice.landing_on_device = true;
  twice.landing = [usable](Announced announced, Received landed) {
    for (int i = 0; i < 2; ++i) {
      Frames frames;
      for (std::uint64_t const nbytes : announced.sizes) {
        auto const block = std::make_shared<std::vector<std::byte>>(nbytes);
        frames.push_back(Buffer::borrow_device(*block, block, host_twin, [usable] { return usable->load(); }));
      }
      landed(std::move(frames), nullptr);
    }
  };
  Pair pair(twice);
  for (unsigned i = 0; i < 2; ++i) {
    *usable = false;
    expect_sent(pair.a, mixed({10, 2 << 20}, "hd", i));
    auto const came = receive(pair.b);
    EXPECT_FALSE(came->there(100ms));
    *usable = true;
    expect_patterns(came->wait().frames, {10, 2 << 20}, i);
  }
}

// ── peers that lie ───────────────────────────────────────────────────────────────────────────────────────

Hello taking_device() {
  Hello said = hello();
  said.kinds = 2;
  said.exports = true;
  said.host = HostIdentity::of_this_process();
  return said;
}

Record hear_record(Raw const& raw) {
  RecordReader reader({.nframes_most = 1000, .message_nbytes_most = 1 << 30, .kinds_most = 2});
  while (!reader.complete()) {
    auto const bytes = raw.hear(1);
    if (bytes.empty()) break;
    (void)reader.feed(bytes);
  }
  return reader.complete() ? reader.take() : Record{};
}

struct DeviceLiar {
  Twin twin;
  Liar liar;
  explicit DeviceLiar(TransportOptions options = options_for(Path::tcp)) : liar(with(options, twin), taking_device()) {}
  static TransportOptions with(TransportOptions options, Twin& twin) {
    options.device_resource = &twin;
    return options;
  }
  [[nodiscard]] Record hear() const { return hear_record(liar.raw); }
};

TEST(TransportDevicePeers, BytesThatComeWithABodyAreOnlyTakenByWhoSaidSo) {
  DeviceLiar peer;
  auto const came = receive(peer.liar.connection);
  peer.liar.raw.say({.type = RecordType::message, .follows = true, .number = 0, .sizes = {5000}, .kinds = {FrameKind::inlined}});
  peer.liar.raw.say(pattern(5000, 4));
  Ended const ended = came->wait();
  ASSERT_EQ(ended.frames.size(), 1u) << ended.what;
  EXPECT_EQ(ended.frames[0].kind(), MemoryKind::device);
  EXPECT_TRUE(std::ranges::equal(ended.frames[0].bytes(), pattern(5000, 4)));
  (void)send(peer.liar.connection, mixed({500}, "d"));  // the liar said 2
  EXPECT_EQ(peer.hear().kinds, std::vector{FrameKind::device});

  TransportOptions lands = options_for(Path::tcp);
  lands.landing_on_device = true;
  lands.landing = [](Announced announced, Received landed) { landed(make_landing(announced.sizes, default_resource()), nullptr); };
  Liar liar(lands, taking_device());
  liar.raw.say({.type = RecordType::message, .follows = true, .number = 0, .sizes = {5000}, .kinds = {FrameKind::inlined}});
  EXPECT_NE(expect_end(liar.connection, ErrorKind::malformed).find("kind 3; this end asked for 2"), std::string::npos);
}

TEST(TransportDevicePeers, MemoryThatCannotBeOpenedIsFetched) {
  DeviceLiar peer;
  auto const came = receive(peer.liar.connection);
  ExportedMemory nobodys{.nbytes = 5000};  // of no process
  peer.liar.raw.say({.type = RecordType::message, .follows = true, .number = 0, .sizes = {3, 5000}, .kinds = {FrameKind::plain, FrameKind::device}, .exported = {nobodys}});
  peer.liar.raw.say("abc");
  Record const fetch = peer.hear();
  EXPECT_EQ(fetch.type, RecordType::fetch);
  EXPECT_TRUE(fetch.unable);
  EXPECT_EQ(fetch.number, 0u);
  peer.liar.raw.say({.type = RecordType::device, .number = 0});
  peer.liar.raw.say(pattern(5000, 4));
  Ended const ended = came->wait();
  ASSERT_EQ(ended.frames.size(), 2u) << ended.what;
  EXPECT_TRUE(std::ranges::equal(ended.frames[1].bytes(), pattern(5000, 4)));
  auto const decisions = peer.liar.connection.stats().decisions;
  EXPECT_TRUE(std::ranges::any_of(decisions, [](Decision const& d) { return d.place == "device frames in" && d.reason.find("another process") != std::string::npos; }));
}

TEST(TransportDevicePeers, AFetchOfNothingEndsTheConnectionInWords) {
  for (auto const type : {RecordType::fetch, RecordType::fetched, RecordType::device}) {
    DeviceLiar peer;
    auto const came = receive(peer.liar.connection);
    peer.liar.raw.say({.type = type, .number = 3});
    Ended const ended = came->wait();
    EXPECT_EQ(ended.kind, ErrorKind::malformed);
    EXPECT_NE(ended.what.find("message 3"), std::string::npos) << ended.what;
  }
}

TEST(TransportDevicePeers, DeviceFramesBeforeTheyWereAskedForEndTheConnection) {
  DeviceLiar peer;
  peer.liar.raw.say({.type = RecordType::message, .follows = true, .number = 0, .sizes = {5000}, .kinds = {FrameKind::device}});
  peer.liar.raw.say({.type = RecordType::device, .number = 0});
  EXPECT_TRUE(peer.liar.raw.ended());
}

TEST(TransportDevicePeers, FetchedTwiceOrWithoutExportsEndsTheConnection) {
  TransportOptions options = options_for(Path::tcp);
  options.exports = false;
  DeviceLiar peer(options);
  (void)send(peer.liar.connection, mixed({10, 5000}, "hd"));
  EXPECT_EQ(peer.hear().type, RecordType::message);
  peer.liar.raw.say({.type = RecordType::fetched, .number = 0});
  EXPECT_NE(expect_end(peer.liar.connection, ErrorKind::malformed).find("exported nothing"), std::string::npos);

  DeviceLiar twice;
  (void)send(twice.liar.connection, mixed({10, 5000}, "hd"));
  EXPECT_EQ(twice.hear().exported.size(), 1u);
  for (int i = 0; i < 2; ++i) twice.liar.raw.say({.type = RecordType::fetch, .number = 0});
  EXPECT_NE(expect_end(twice.liar.connection, ErrorKind::malformed).find("no device frames to fetch"), std::string::npos);
}

TEST(TransportDevicePeers, WhatWasReadFromAPeerThatIsGoneIsDropped) {
  // The peer lets go of its memory when it ends the connection: what is read after that may be anybody's.
  TransportOptions options = options_for(Path::tcp);
  auto const gate = std::make_shared<std::atomic<bool>>(false);
  options.landing_on_device = true;
  options.landing = [gate](Announced announced, Received landed) {
    Frames frames;
    for (std::uint64_t const nbytes : announced.sizes) {
      auto const block = std::make_shared<std::vector<std::byte>>(nbytes);
      frames.push_back(Buffer::borrow_device(*block, block, host_twin, [gate] { return gate->load(); }));
    }
    landed(std::move(frames), nullptr);
  };
  Liar liar(options, taking_device());
  auto const memory = pattern(5000);
  std::string why_not;
  auto const exported = export_memory(memory, host_twin, why_not);
  ASSERT_TRUE(exported);
  auto const came = receive(liar.connection);
  liar.raw.say({.type = RecordType::message, .follows = true, .number = 0, .sizes = {5000}, .kinds = {FrameKind::device}, .exported = {*exported}});
  liar.raw.say({.type = RecordType::message, .follows = true, .number = 1, .sizes = {0}});  // unread bytes before the end
  std::this_thread::sleep_for(50ms);
  liar.raw.end();
  *gate = true;
  EXPECT_TRUE(came->wait().kind.has_value());
}

TEST(TransportDevicePeers, AnEndIsSeenBeforeTheBytesThatAreUnread) {
  // A peer that reads our memory asks, when it is done, whether we are there still: we let go of the memory behind our end, which bytes of ours that
  // the peer has not read must not hold up.
  Hello said = taking_device();
  said.window_nbytes = 1 << 30;
  Twin twin;
  Liar liar(DeviceLiar::with(options_for(Path::tcp), twin), said);
  (void)send(liar.connection, mixed({10, 5000}, "hd"));
  (void)send(liar.connection, patterns({64 << 20}));
  std::this_thread::sleep_for(300ms);  // both socket buffers are full
  EXPECT_FALSE(liar.raw.hung_up());
  liar.connection.abort();
  EXPECT_TRUE(eventually([&] { return liar.raw.hung_up(); }));
}

/// A peer whose memory takes a while to be read, and an end whose reader makes the memory.
struct SlowPeer {
  Twin twin;
  std::vector<std::byte> memory = pattern(5000, 7);
  std::optional<Liar> liar;

  explicit SlowPeer(std::chrono::microseconds takes) {
    TransportOptions options = DeviceLiar::with(options_for(Path::tcp), twin);
    options.lands_when_received = true;
    liar.emplace(options, taking_device());
    std::string why_not;
    ExportedMemory exported = export_memory(memory, host_twin, why_not).value();
    exported.allocation = static_cast<std::uint64_t>(takes.count());
    liar->raw.say({.type = RecordType::message, .follows = true, .number = 0, .sizes = {5000}, .kinds = {FrameKind::device}, .exported = {exported}});
    wait_until_readable();
  }
  void wait_until_readable() {
    Told<bool> readable;
    liar->connection.when_readable([&] { readable.tell(true); });
    readable.wait();
  }
  [[nodiscard]] bool try_receive(Frames& frames) {
    return liar->connection.try_receive(frames, [this](Announced const& announced) {
      Frames made;
      for (std::uint64_t const nbytes : announced.sizes) made.push_back(Buffer::allocate(nbytes, twin));
      return made;
    });
  }
};

TEST(TransportDevicePeers, AReaderWaitsForMemoryThatIsBeingRead) {
  SlowPeer peer(100ms);
  Frames frames;
  EXPECT_FALSE(peer.try_receive(frames));
  EXPECT_TRUE(peer.liar->connection.reads_device());
  EXPECT_FALSE(peer.try_receive(frames));  // it has begun
  EXPECT_TRUE(peer.liar->connection.wait_device(10s));
  EXPECT_FALSE(peer.liar->connection.reads_device());
  EXPECT_TRUE(peer.try_receive(frames));
  EXPECT_TRUE(std::ranges::equal(frames.at(0).bytes(), peer.memory));
}

TEST(TransportDevicePeers, MemoryIsReadOnWhereNobodyWaitsLonger) {
  for (auto const budget : {0us, 50us, 1000us}) {
    SlowPeer peer(100ms);
    Frames frames;
    EXPECT_FALSE(peer.try_receive(frames));
    EXPECT_FALSE(peer.liar->connection.wait_device(budget));
    EXPECT_FALSE(peer.liar->connection.reads_device());
    peer.wait_until_readable();
    EXPECT_TRUE(peer.try_receive(frames));
    EXPECT_TRUE(std::ranges::equal(frames.at(0).bytes(), peer.memory));
  }
}

TEST(TransportDevicePeers, AnEndWhileMemoryIsBeingReadLetsGoOfBothSides) {
  for (bool const waits : {false, true}) {
    SlowPeer peer(500ms);
    Frames frames;
    EXPECT_FALSE(peer.try_receive(frames));
    if (waits) {
      EXPECT_FALSE(peer.liar->connection.wait_device(0us));
    }
    EXPECT_EQ(peer.twin.used(), 5000u);
    peer.liar->raw.end();
    expect_end(peer.liar->connection);
    EXPECT_FALSE(peer.liar->connection.reads_device());
    EXPECT_TRUE(eventually([&] { return peer.twin.used() == 0; }));
  }
}

TEST(TransportDevicePeers, MemoryThatIsGoneEndsTheConnectionInWords) {
  auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const gone = ::mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);  // as after munmap, and nobody else gets it
  ASSERT_NE(gone, MAP_FAILED);
  std::string why_not;
  ExportedMemory const exported = export_memory({static_cast<std::byte*>(gone), page}, host_twin, why_not).value();
  DeviceLiar liar;
  auto const came = receive(liar.liar.connection);
  liar.liar.raw.say({.type = RecordType::message, .follows = true, .number = 0, .sizes = {page}, .kinds = {FrameKind::device}, .exported = {exported}});
  Ended const ended = came->wait();
  EXPECT_NE(ended.what.find("the peer's memory is gone"), std::string::npos) << ended.what;
  ::munmap(gone, page);
}

TEST(TransportDevicePeers, APeerThatCannotOpenSaysNothingOfWhatComesFromIt) {
  // Half of the message had come when its way changed from the reader's to the engine's, and then nobody made its memory.
  Twin twin;
  TransportOptions options = DeviceLiar::with(options_for(Path::tcp_streams), twin);
  options.lands_when_received = true;
  Host host(options);
  Raw const first(host.address());
  Hello said = taking_device();
  said.streams = 1;
  first.say(pack_hello(said));
  said.token = first.hear_hello().token;
  Connection connection = host.accepted->wait();
  Raw const further(host.address());
  said.stream = 1;
  further.say(pack_hello(said));
  EXPECT_EQ(further.hear_hello().refused, "");
  first.say({.type = RecordType::streams, .nstreams = 1});

  EXPECT_EQ(send(connection, mixed({5000}, "d"))->wait().kind, std::nullopt);
  EXPECT_EQ(hear_record(first).exported.size(), 1u);
  Told<bool> readable;
  connection.when_readable([&] { readable.tell(true); });
  first.say({.type = RecordType::message, .follows = true, .nstreams = 1, .chunk_nbytes = 4096, .number = 0, .sizes = {4096, 5000}, .kinds = {FrameKind::plain, FrameKind::device}, .exported = {{.nbytes = 5000}}});
  first.say({.type = RecordType::fetch, .unable = true, .number = 0});
  EXPECT_EQ(hear_record(first).type, RecordType::device);
  further.say(pattern(4096));
  EXPECT_TRUE(readable.wait());
  auto const land = [&](Announced const& announced) {
    Frames made;
    made.push_back(Buffer::allocate(announced.sizes.at(0), twin));
    return made;
  };
  Frames frames;
  EXPECT_FALSE(connection.try_receive(frames, land));  // of no process
  EXPECT_TRUE(hear_record(first).unable);
  connection.when_readable([&] { readable.tell(true); });
  first.say({.type = RecordType::device, .number = 0});
  first.say(pattern(5000, 4));
  EXPECT_TRUE(readable.wait());
  EXPECT_TRUE(connection.try_receive(frames, land));
  EXPECT_TRUE(std::ranges::equal(frames.at(1).bytes(), pattern(5000, 4)));
}

TEST(TransportDevicePeers, WithoutBytesThereIsNothingToOpen) {
  DeviceLiar peer;
  auto const memory = pattern(5000);
  std::string why_not;
  auto const exported = export_memory(memory, host_twin, why_not);
  ASSERT_TRUE(exported);
  auto const came = receive(peer.liar.connection);
  peer.liar.raw.say({.type = RecordType::message, .follows = true, .number = 0, .sizes = {0, 5000}, .kinds = {FrameKind::device, FrameKind::device}, .exported = {{}, *exported}});
  EXPECT_EQ(peer.hear().type, RecordType::fetched);
  Ended const ended = came->wait();
  ASSERT_EQ(ended.frames.size(), 2u) << ended.what;
  EXPECT_TRUE(std::ranges::equal(ended.frames[1].bytes(), memory));
}

TEST(TransportDevicePeers, WhyFramesAreStagedStaysWhatItWas) {
  auto const reason_out = [](Connection const& connection) {
    std::string reason;
    for (Decision const& decision : connection.stats().decisions) {
      if (decision.place == "device frames out") reason = cat(decision.choice, ": ", decision.reason);
    }
    return reason;
  };
  DeviceLiar blind;
  for (unsigned i = 0; i < 2; ++i) (void)send(blind.liar.connection, mixed({5000}, "d", i));
  blind.liar.raw.say({.type = RecordType::fetch, .unable = true, .number = 0});
  blind.liar.raw.say({.type = RecordType::fetch, .number = 1});  // was exported before that was known
  std::string reason;
  EXPECT_TRUE(eventually([&] { return (reason = reason_out(blind.liar.connection)).starts_with("staged"); }));
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(reason_out(blind.liar.connection), "staged: the peer cannot open exported memory");

  DeviceLiar hidden;
  auto const came = receive(hidden.liar.connection);
  hidden.liar.raw.say({.type = RecordType::message, .follows = true, .number = 0, .sizes = {5000}, .kinds = {FrameKind::device}, .exported = {{.nbytes = 5000}}});
  EXPECT_TRUE(hidden.hear().unable);
  (void)send(hidden.liar.connection, mixed({5000}, "d"));
  EXPECT_EQ(reason_out(hidden.liar.connection), "CUDA IPC: ");  // what the peer can open is another thing
}

TEST(TransportDevicePeers, WhoFetchesAndReadsNothingOrOwesWhatWasAskedForIsStalled) {
  TransportOptions impatient = options_for(Path::tcp);
  impatient.stall_timeout = 1s;
  DeviceLiar deaf(impatient);
  (void)send(deaf.liar.connection, mixed({64 << 20}, "d"));
  deaf.liar.raw.say({.type = RecordType::fetch, .number = 0});
  EXPECT_NE(expect_end(deaf.liar.connection, ErrorKind::disconnected).find("has not moved a byte"), std::string::npos);

  DeviceLiar mute(impatient);
  auto const came = receive(mute.liar.connection);
  mute.liar.raw.say({.type = RecordType::message, .follows = true, .number = 0, .sizes = {5000}, .kinds = {FrameKind::device}});
  EXPECT_NE(came->wait().what.find("has not moved a byte"), std::string::npos);
}

TEST(TransportDevicePeers, AGoodbyeBeforeDeviceFramesEndsTheConnectionInWords) {
  DeviceLiar peer;
  peer.liar.raw.say({.type = RecordType::message, .follows = true, .number = 0, .sizes = {5000}, .kinds = {FrameKind::device}});
  peer.liar.raw.say({.type = RecordType::goodbye});
  EXPECT_NE(expect_end(peer.liar.connection, ErrorKind::malformed).find("a goodbye before"), std::string::npos);
}

}  // namespace
}  // namespace transload::test
