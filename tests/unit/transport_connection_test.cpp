// Connections over real sockets, whatever path the bytes take.
#include <ctime>
#include <thread>

#include <gtest/gtest.h>

#include "support/transport.hpp"

namespace transload::test {
namespace {

class Transport : public ::testing::TestWithParam<Path> {};
INSTANTIATE_TEST_SUITE_P(, Transport, ::testing::Values(Path::tcp, Path::tcp_streams, Path::shared_memory, Path::process), path_name);

TEST_P(Transport, EchoesFramesOfEverySize) {
  Pair pair(GetParam());
  std::vector<std::vector<std::size_t>> const messages{
      {}, {0}, {1}, {0, 0, 5, 0}, {4095, 4096, 4097}, {65536, 1, 65535}, {1'000'000, 3, 0, 2'000'001, 10}, {5'000'000, 5'000'000}, {64}};
  for (std::size_t m = 0; m < messages.size(); ++m) {
    auto const sent = send(pair.a, patterns(messages[m], static_cast<unsigned>(m)));
    Frames there = expect_message(pair.b);
    expect_patterns(there, messages[m], static_cast<unsigned>(m));
    for (Buffer const& frame : there) {
      if (frame.nbytes() >= 4096 && GetParam() != Path::process) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(frame.data()) % 64, 0u);
      }
    }
    auto const back = send(pair.b, std::move(there));
    expect_patterns(expect_message(pair.a), messages[m], static_cast<unsigned>(m));
    EXPECT_FALSE(sent->wait().kind);
    EXPECT_FALSE(back->wait().kind);
  }
  auto const stats = pair.a.stats();
  EXPECT_EQ(stats.messages_sent, messages.size());
  EXPECT_EQ(stats.messages_received, messages.size());
  EXPECT_EQ(stats.nbytes_sent, stats.nbytes_received);
  EXPECT_EQ(stats.nbytes_waiting, 0u);
  std::string const path = GetParam() == Path::process ? "process" : GetParam() == Path::shared_memory ? "shared memory" : "tcp";
  EXPECT_EQ(stats.path, path);
  EXPECT_EQ(pair.b.stats().path, path);
  EXPECT_EQ(stats.streams, GetParam() == Path::tcp_streams ? 3u : GetParam() == Path::shared_memory ? 2u : GetParam() == Path::tcp ? 1u : 0u);
}

TEST_P(Transport, KeepsTheOrderOfManyMessagesOfMixedSizes) {
  Pair pair(GetParam());
  constexpr unsigned n = 400;
  auto const sizes = [](unsigned i) { return std::vector<std::size_t>{i % 7, i % 13 == 0 ? 700'000u + i : i % 3000, i}; };
  std::thread sender([&] {
    for (unsigned i = 0; i < n; ++i) expect_sent(pair.a, patterns(sizes(i), i));
  });
  for (unsigned i = 0; i < n; ++i) expect_patterns(expect_message(pair.b), sizes(i), i);
  sender.join();
}

TEST_P(Transport, MovesBothWaysAtOnce) {
  Pair pair(GetParam());
  auto const run = [](Connection& connection, unsigned seed) {
    std::vector<std::shared_ptr<Told<Ended>>> sent;
    for (unsigned i = 0; i < 20; ++i) sent.push_back(send(connection, patterns({3'000'000 + i, 10}, seed + i)));
    for (unsigned i = 0; i < 20; ++i) expect_patterns(expect_message(connection), {3'000'000 + i, 10}, 1000 - seed + i);
    for (auto const& one : sent) EXPECT_FALSE(one->wait().kind);
  };
  std::thread other([&] { run(pair.b, 1000); });
  run(pair.a, 0);
  other.join();
}

TEST_P(Transport, TakesTenThousandFramesInAMessage) {
  Pair pair(GetParam());
  std::vector<std::size_t> sizes;
  for (unsigned i = 0; i < 10'000; ++i) sizes.push_back(i % 3 == 0 ? 8000 : i % 50);
  auto const sent = send(pair.a, patterns(sizes));
  expect_patterns(expect_message(pair.b), sizes);
  EXPECT_FALSE(sent->wait().kind);
}

TEST_P(Transport, HoldsBackWhatNobodyAsksFor) {
  Pair pair(GetParam());
  // 64 MiB are handed over, and the other end does not ask.
  std::vector<std::shared_ptr<Told<Ended>>> sent;
  for (unsigned i = 0; i < 64; ++i) sent.push_back(send(pair.a, patterns({1 << 20}, i)));
  EXPECT_FALSE(sent[20]->there(300ms));
  EXPECT_TRUE(sent[0]->there());
  if (GetParam() != Path::process) {
    EXPECT_LE(pair.b.stats().nbytes_ready, std::uint64_t{4} << 20);
  }
  for (unsigned i = 0; i < 64; ++i) expect_patterns(expect_message(pair.b), {1 << 20}, i);
  for (auto const& one : sent) EXPECT_FALSE(one->wait().kind);
}

TEST_P(Transport, LetsGoOfFramesOnceTheyAreHandedOn) {
  Pair pair(GetParam());
  auto const keeper = std::make_shared<std::vector<std::byte>>(pattern(3'000'000));
  std::weak_ptr<void> const weak = keeper;
  {
    Frames frames;
    frames.push_back(Buffer::borrow_writable(*keeper, keeper));
    auto const sent = send(pair.a, std::move(frames));
    Frames const there = expect_message(pair.b);
    EXPECT_FALSE(sent->wait().kind);
    EXPECT_EQ(there[0].data() == keeper->data(), GetParam() == Path::process);  // by reference there, and only there
  }
  EXPECT_TRUE(eventually([&] { return keeper.use_count() == 1; }));
}

TEST_P(Transport, CloseHandsOnWhatWasSentAndAbortEndsTheOther) {
  Pair pair(GetParam());
  (void)send(pair.a, patterns({100, 200'000}));
  (void)send(pair.a, one_frame("last"));
  EXPECT_FALSE(close(pair.a)->wait().kind);
  EXPECT_TRUE(pair.a.closed());
  expect_patterns(expect_message(pair.b), {100, 200'000});
  EXPECT_FALSE(pair.b.closed());
  EXPECT_EQ(text_of(expect_message(pair.b)), "last");
  EXPECT_EQ(expect_end(pair.b), "closed by the peer");
  EXPECT_TRUE(pair.b.closed());
  EXPECT_EQ(send(pair.b, one_frame("x"))->wait().kind, ErrorKind::disconnected);
  EXPECT_EQ(expect_end(pair.a), "the connection was closed here");
}

TEST_P(Transport, WhatWasSentBeforeACloseComesThoughTheConnectionIsDropped) {
  // The goodbye, or the end of the first stream, overtook what was under way on further ones.
  for (unsigned i = 0; i < 40; ++i) {
    Pair pair(GetParam());
    for (unsigned m = 0; m < 3; ++m) (void)send(pair.a, patterns({10, 3'000'000}, m));
    auto const closed = close(pair.a);
    std::thread writer([&] {
      // The other end answers a connection that is already gone; it must read on all the same.
      for (unsigned m = 0; m < 20; ++m) (void)send(pair.b, one_frame("an answer to nobody"));
    });
    expect_patterns(expect_message(pair.b), {10, 3'000'000}, 0);
    expect_patterns(expect_message(pair.b), {10, 3'000'000}, 1);
    EXPECT_FALSE(closed->wait().kind);
    pair.a = {};
    if (i % 4 == 0) std::this_thread::sleep_for(5ms);
    expect_patterns(expect_message(pair.b), {10, 3'000'000}, 2);
    EXPECT_EQ(expect_end(pair.b), "closed by the peer");
    writer.join();
    if (HasFailure()) break;
  }
}

TEST_P(Transport, StatsTellThePathAfterTheEndToo) {
  Pair pair(GetParam());
  (void)send(pair.a, patterns({3'000'000}));
  (void)expect_message(pair.b);
  std::string const path = pair.a.stats().path;
  unsigned const streams = pair.a.stats().streams;
  pair.b.abort();
  (void)expect_end(pair.a);
  EXPECT_EQ(pair.a.stats().path, path);
  EXPECT_EQ(pair.a.stats().streams, streams);
  EXPECT_EQ(path == "shared memory", GetParam() == Path::shared_memory);
}

TEST_P(Transport, CloseWakesWhoeverWaitsForAMessageHere) {
  Pair pair(GetParam());
  auto const waiting = receive(pair.a);
  auto const closed = close(pair.a);
  EXPECT_EQ(waiting->wait(1s).what, "the connection was closed here");
  EXPECT_FALSE(closed->wait().kind);
}

TEST_P(Transport, AbortEndsBothEnds) {
  Pair pair(GetParam());
  auto const waiting_a = receive(pair.a);
  auto const waiting_b = receive(pair.b);
  pair.b.abort();
  EXPECT_EQ(waiting_a->wait().kind, ErrorKind::disconnected);
  EXPECT_EQ(waiting_b->wait().kind, ErrorKind::disconnected);
  EXPECT_TRUE(pair.a.closed());
  EXPECT_TRUE(pair.b.closed());
  EXPECT_TRUE(eventually([&] { return pair.engine.nconnections() == 0; }));
}

TEST_P(Transport, AWaitingSendIsToldWhenTheConnectionEnds) {
  Pair pair(GetParam());
  EXPECT_FALSE(send(pair.a, patterns({30'000'000}))->wait().kind);  // the first one never waits: who writes may be who reads
  auto const sent = send(pair.a, patterns({10}));
  EXPECT_FALSE(sent->there(100ms));
  pair.b.abort();
  EXPECT_EQ(sent->wait().kind, ErrorKind::disconnected);
}

TEST_P(Transport, DroppingAnEndInMidTransferEndsTheOther) {
  for (int i = 0; i < 5; ++i) {
    Pair pair(GetParam());
    auto const sent = send(pair.a, patterns({40'000'000}));
    auto const coming = receive(pair.b);
    std::this_thread::sleep_for(std::chrono::milliseconds(i));
    pair.a = {};
    Ended const ended = coming->wait();
    if (ended.kind) {
      EXPECT_EQ(ended.kind, ErrorKind::disconnected);
    } else {
      expect_patterns(ended.frames, {40'000'000});  // it was quick
    }
  }
}

TEST_P(Transport, ManySmallMessages) {
  Pair pair(GetParam());
  constexpr int n = 100'000;
  std::thread sender([&] {
    for (int i = 0; i < n; ++i) {
      std::string const text = std::to_string(i);
      std::array const frames{std::as_bytes(std::span(text)), std::as_bytes(std::span("abc", 3))};
      std::promise<void> room;
      pair.a.send_copy(frames, [&room](Error const*) { room.set_value(); });
      room.get_future().wait();
    }
  });
  Frames frames;
  for (int i = 0; i < n; ++i) {
    while (!pair.b.try_receive(frames)) {
      std::promise<void> readable;
      pair.b.when_readable([&] { readable.set_value(); });
      readable.get_future().wait();
    }
    ASSERT_EQ(text_of(frames), std::to_string(i) + "abc");
  }
  sender.join();
}

TEST_P(Transport, AReaderThatGivesUpLeavesTheMessageForTheNext) {
  Pair pair(GetParam());
  auto const calls = std::make_shared<Told<int>>();
  pair.b.when_readable([calls] { calls->tell(1); });
  pair.b.when_readable([calls] { calls->tell(2); });  // takes the first one's place
  expect_sent(pair.a, one_frame("kept"));
  EXPECT_EQ(calls->wait(), 2);
  EXPECT_FALSE(calls->there(50ms));
  EXPECT_EQ(text_of(expect_message(pair.b)), "kept");
}

TEST_P(Transport, ChangesToAFrameAfterItArrivedStayThereUnlessItIsOneProcess) {
  Pair pair(GetParam());
  auto const keeper = std::make_shared<std::vector<std::byte>>(pattern(1'000'000));
  Frames frames;
  frames.push_back(Buffer::borrow_writable(*keeper, keeper));
  (void)send(pair.a, std::move(frames));
  Frames there = expect_message(pair.b);
  there[0].writable()[5] = std::byte{99};
  EXPECT_EQ((*keeper)[5] == std::byte{99}, GetParam() == Path::process);  // by reference there
}

// ── memory that the receiver makes ───────────────────────────────────────────────────────────────────────

/// An end that lets announced messages land where the test wants: each question, with what answers it.
struct Lander {
  struct Question {
    Announced announced;
    Received landed;
  };
  std::shared_ptr<Told<std::shared_ptr<Question>>> questions = std::make_shared<Told<std::shared_ptr<Question>>>();

  [[nodiscard]] TransportOptions options(Path path) const {
    TransportOptions options = options_for(path);
    options.landing = [questions = questions](Announced announced, Received landed) {
      questions->tell(std::make_shared<Question>(Question{std::move(announced), std::move(landed)}));
    };
    return options;
  }
};

constexpr std::array two_kinds{FrameKind::plain, FrameKind::object};
std::vector<std::size_t> const two_sizes{5000, 20'000'000};

class Landings : public ::testing::TestWithParam<Path> {};
INSTANTIATE_TEST_SUITE_P(, Landings, ::testing::Values(Path::tcp, Path::tcp_streams, Path::shared_memory), path_name);

TEST_P(Landings, AMessageLandsInTheMemoryThatWasMadeForIt) {
  Lander lander;
  Pair pair(lander.options(GetParam()), options_for(GetParam()));
  pair.a.send(patterns(two_sizes), {}, two_kinds);
  auto const received = receive(pair.b);
  auto const question = lander.questions->wait();
  EXPECT_EQ(question->announced.sizes, (std::vector<std::uint64_t>{two_sizes[0], two_sizes[1]}));
  EXPECT_EQ(question->announced.kinds, (std::vector<FrameKind>{two_kinds[0], two_kinds[1]}));
  EXPECT_FALSE(received->there(100ms));  // it waits for its memory
  Frames frames = make_landing(question->announced.sizes, default_resource());
  std::byte const* const where = frames[1].data();
  question->landed(std::move(frames), nullptr);
  question->landed({}, nullptr);  // a second answer is none
  Ended const ended = received->wait();
  EXPECT_EQ(ended.frames.at(1).data(), where);
  expect_patterns(ended.frames, two_sizes);
  expect_sent(pair.b, one_frame("answered"));
  EXPECT_EQ(text_of(expect_message(pair.a)), "answered");
}

TEST_P(Landings, OnlyWhatIsAnnouncedAndHasAKindIsAskedFor) {
  Lander lander;
  Pair pair(lander.options(GetParam()), options_for(GetParam()));
  pair.a.send(patterns({100'000}), {}, std::array{FrameKind::object});  // within the window
  expect_patterns(expect_message(pair.b), {100'000});
  pair.a.send(patterns(two_sizes), {}, std::array{FrameKind::plain, FrameKind::plain});
  expect_patterns(expect_message(pair.b), two_sizes);
  pair.b.send(patterns(two_sizes), {}, two_kinds);  // the other end did not ask to be told
  expect_patterns(expect_message(pair.a), two_sizes);
  EXPECT_FALSE(lander.questions->there());
}

TEST_P(Landings, MemoryThatIsNotThereOrDoesNotFitEndsTheConnectionInWords) {
  for (bool const exhausted : {true, false}) {
    Lander lander;
    Pair pair(lander.options(GetParam()), options_for(GetParam()));
    pair.a.send(patterns(two_sizes), {}, two_kinds);
    auto const received = receive(pair.b);
    auto const question = lander.questions->wait();
    Error const error(ErrorKind::exhausted, "the test has no more");
    if (exhausted) {
      question->landed({}, &error);
    } else {
      question->landed(make_landing(std::array<std::uint64_t, 2>{two_sizes[0], two_sizes[1] - 1}, default_resource()), nullptr);
    }
    Ended const ended = received->wait();
    EXPECT_EQ(ended.kind, exhausted ? ErrorKind::exhausted : ErrorKind::failed);
    EXPECT_EQ(ended.what, exhausted ? "the test has no more" : "the memory made for an announced message is not of its sizes");
    expect_end(pair.a);
  }
}

TEST_P(Landings, MemoryThatComesTooLateIsLetGo) {
  Lander lander;
  std::shared_ptr<Lander::Question> question;
  {
    Pair pair(lander.options(GetParam()), options_for(GetParam()));
    pair.a.send(patterns(two_sizes), {}, two_kinds);
    auto const received = receive(pair.b);
    question = lander.questions->wait();
    pair.b.abort();
    EXPECT_EQ(received->wait().kind, ErrorKind::disconnected);
    std::weak_ptr<int> alive;
    {
      auto const keeper = std::make_shared<std::vector<std::byte>>(two_sizes[0]);
      auto const other = std::make_shared<std::vector<std::byte>>(two_sizes[1]);
      auto const watched = std::shared_ptr<int>(other, nullptr);
      alive = watched;
      Frames frames;
      frames.push_back(Buffer::borrow_writable(*keeper, keeper));
      frames.push_back(Buffer::borrow_writable(*other, other));
      question->landed(std::move(frames), nullptr);
    }
    EXPECT_TRUE(eventually([&] { return alive.expired(); }));
  }
  question->landed(make_landing(question->announced.sizes, default_resource()), nullptr);  // the engine is gone, too
}

TEST(TransportLimits, AreToldAndKept) {
  TransportOptions small = options_for(Path::tcp);
  small.nframes_most = 3;
  small.message_nbytes_most = 1000;
  Pair pair(small, options_for(Path::tcp));
  EXPECT_NE(error_of([&] { pair.a.send(patterns({1, 1, 1, 1})); }, ErrorKind::exhausted).find("takes 3"), std::string::npos);
  EXPECT_NE(error_of([&] { pair.a.send(patterns({600, 401})); }, ErrorKind::exhausted).find("takes 1000"), std::string::npos);
  EXPECT_NE(error_of([&] { pair.a.send(patterns({1, 2}), {}, std::array{FrameKind::plain}); }, ErrorKind::failed).find("1 kinds of 2"), std::string::npos);
  expect_sent(pair.a, patterns({600, 400}));
  expect_patterns(expect_message(pair.b), {600, 400});  // the connection is as good as before
}

TEST(TransportLimits, NoMemoryForAMessageEndsTheConnectionInWords) {
  struct Poor final : Resource {
    std::span<std::byte> allocate(std::size_t nbytes) override {
      expects(nbytes < 1'000'000, ErrorKind::exhausted, "the test has no more");
      return host.allocate(nbytes);
    }
    void deallocate(std::span<std::byte> block) noexcept override { host.deallocate(block); }
    [[nodiscard]] MemoryKind kind() const noexcept override { return MemoryKind::host; }
    HostResource host;
  };
  static Poor poor;
  TransportOptions options = options_for(Path::tcp);
  options.resource = &poor;
  for (std::size_t const nbytes : {std::size_t{2'000'000}, std::size_t{20'000'000}}) {  // within the window, and above it
    Pair pair(options, options_for(Path::tcp));
    auto const sent = send(pair.a, patterns({nbytes}));
    EXPECT_EQ(expect_end(pair.b, ErrorKind::exhausted), "the test has no more");
    expect_end(pair.a);
  }
}

TEST(TransportEngine, ListensOnEveryAddressAndOnIpv6) {
  Host everywhere({}, {"", 0});
  EXPECT_GE(everywhere.listener.addresses().size(), 1u);
  for (Address const& address : everywhere.listener.addresses()) EXPECT_EQ(address.port, everywhere.address().port);
  Address const loopback{"127.0.0.1", everywhere.address().port};
  Connection const connection = everywhere.engine.connect(loopback);
  EXPECT_EQ(connection.peer_address(), loopback);
  try {
    Host six({}, {"::1", 0});
    Connection a = six.engine.connect(six.address());
    EXPECT_EQ(a.peer_address().host, "::1");
  } catch (Error const& error) {
    GTEST_SKIP() << "no IPv6 here: " << error.what();
  }
}

TEST(TransportEngine, ConnectsByName) {
  Host host({}, {"127.0.0.1", 0});
  Connection const connection = host.engine.connect({"localhost", host.address().port});
  EXPECT_TRUE(connection.valid());
}

TEST(TransportEngine, SaysWhyNobodyAnswers) {
  Engine engine(1);
  EXPECT_NE(error_of([&] { (void)engine.connect({"127.0.0.1", 1}); }, ErrorKind::disconnected).find("refused"), std::string::npos);
  error_of([&] { (void)engine.connect({"no-such-host.invalid", 1}); }, ErrorKind::disconnected);
  error_of([&] { (void)engine.listen({"203.0.113.1", 0}, {}, [](Connection) {}); }, ErrorKind::failed);
}

TEST(TransportEngine, EndsWithConnectionsOpen) {
  Connection kept;
  std::shared_ptr<Told<Ended>> waiting;
  {
    Pair pair(Path::shared_memory);
    (void)send(pair.a, patterns({10'000'000}));
    kept = std::move(pair.a);
    waiting = receive(kept);
  }
  EXPECT_EQ(waiting->wait().kind, ErrorKind::disconnected);
  EXPECT_TRUE(kept.closed());
}

TEST_P(Transport, EndsThatAreDroppedLeaveTheThreadsAtRest) {
  // A wire that was closed under a reader called it again and again.
  Pair pair(GetParam());
  for (int i = 0; i < 20; ++i) {
    Connection const a = pair.engine.connect(pair.address(), options_for(GetParam()));
    Connection const b = pair.accepted->wait();
  }
  pair.a = {};
  pair.b = {};
  auto const cpu = [] {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
  };
  ASSERT_TRUE(eventually([&] { return pair.engine.nconnections() == 0; }));
  std::this_thread::sleep_for(100ms);
  double const before = cpu();
  std::this_thread::sleep_for(300ms);
  EXPECT_LT(cpu() - before, 0.1);
}

TEST(TransportEngine, AListenerThatStopsLeavesItsConnections) {
  Pair pair(Path::tcp);
  Address const address = pair.address();
  pair.listener.stop();
  expect_sent(pair.a, one_frame("on"));
  EXPECT_EQ(text_of(expect_message(pair.b)), "on");
  EXPECT_TRUE(eventually([&] {
    try {
      (void)pair.engine.connect(address);
      return false;
    } catch (Error const&) {
      return true;
    }
  }));
}

}  // namespace
}  // namespace transload::test
