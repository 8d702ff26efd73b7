// Peers that are strangers, lie, stall, die or come in numbers.
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "support/raw_peer.hpp"
#include "support/transport.hpp"
#include "transload/base/limits.hpp"
#include "transload/transport/hello.hpp"
#include "transload/transport/record.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif
#else
constexpr bool sanitized = false;
#endif

namespace transload::test {
namespace {

// ── strangers ────────────────────────────────────────────────────────────────────────────────────────────

std::string dask_preamble() {
  std::string bytes(24 + 67, '\0');
  bytes[0] = 16 + 67;
  bytes[8] = 1;
  bytes[16] = 67;
  return bytes;
}

struct Stranger {
  char const* name;
  std::string bytes;
  std::string shown;
};
class Strangers : public ::testing::TestWithParam<Stranger> {};
INSTANTIATE_TEST_SUITE_P(, Strangers,
                         ::testing::Values(Stranger{"http", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"}, Stranger{"tls", std::string("\x16\x03\x01\x02\x00\x01\x00", 7), "TLS"},
                                           Stranger{"dask", dask_preamble(), "Dask's tcp://"}, Stranger{"ssh", "SSH-2.0-x\r\n", "SSH"},
                                           Stranger{"garbage", "\xff\xfe\xfd garbage", "the bytes ff fe fd"}),
                         [](auto const& info) { return std::string(info.param.name); });

TEST_P(Strangers, AreRefusedWithOneLineAndHearNothing) {
  Host host;
  Raw const raw(host.address());
  raw.say(GetParam().bytes);
  EXPECT_TRUE(raw.hear(1).empty());  // ended, without a byte
  EXPECT_NE(host.lines->wait().find(GetParam().shown), std::string::npos);
  EXPECT_FALSE(host.lines->there(50ms));
  EXPECT_FALSE(host.accepted->there());
}

TEST(TransportPeers, AnswerInAnotherLanguageIsUnsupported) {
  // Dask's listener speaks first, an HTTP server waits for a request and answers it in its own way.
  for (std::string const& answer : {dask_preamble(), std::string("HTTP/1.1 400 Bad Request\r\n\r\n")}) {
    int const door = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t n = sizeof at;
    ASSERT_EQ(::bind(door, reinterpret_cast<sockaddr*>(&at), n), 0);
    ASSERT_EQ(::listen(door, 1), 0);
    ::getsockname(door, reinterpret_cast<sockaddr*>(&at), &n);
    std::thread server([&] {
      Raw const peer(::accept(door, nullptr, nullptr));
      peer.say(answer);
      EXPECT_TRUE(peer.ended());
    });
    Engine engine(1);
    auto const what = error_of([&] { (void)engine.connect({"127.0.0.1", ntohs(at.sin_port)}); }, ErrorKind::unsupported);
    EXPECT_NE(what.find(answer[0] == 'H' ? "HTTP" : "Dask's tcp://"), std::string::npos) << what;
    server.join();
    ::close(door);
  }
}

TEST(TransportPeers, WhoSaysNothingIsLetGoInTime) {
  TransportOptions options;
  options.hello_timeout = 200ms;
  Host host(options);
  Raw const silent(host.address());
  Raw const halfway(host.address());
  auto const bytes = pack_hello(hello());
  halfway.say(std::span(bytes).first(30));
  EXPECT_TRUE(silent.ended(5s));
  EXPECT_TRUE(halfway.ended(5s));
  EXPECT_NE(host.lines->wait().find("no hello"), std::string::npos);
}

TEST(TransportPeers, AListenerThatSaysNothingIsGivenUpInTime) {
  int const door = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t n = sizeof at;
  ASSERT_EQ(::bind(door, reinterpret_cast<sockaddr*>(&at), n), 0);
  ASSERT_EQ(::listen(door, 1), 0);
  ::getsockname(door, reinterpret_cast<sockaddr*>(&at), &n);
  TransportOptions options;
  options.hello_timeout = 200ms;
  Engine engine(1);
  EXPECT_NE(error_of([&] { (void)engine.connect({"127.0.0.1", ntohs(at.sin_port)}, options); }, ErrorKind::disconnected).find("200 ms"), std::string::npos);
  ::close(door);
}

TEST(TransportPeers, AnotherVersionIsToldWhy) {
  Host host;
  Raw const raw(host.address());
  Hello future = hello();
  future.version_least = future.version_most = 7;
  raw.say(pack_hello(future));
  Hello const answer = raw.hear_hello();
  EXPECT_NE(answer.refused.find("no common version"), std::string::npos) << answer.refused;
  EXPECT_TRUE(raw.ended());
  EXPECT_NE(host.lines->wait().find("no common version"), std::string::npos);
}

TEST(TransportPeers, AStreamForNobodyIsRefused) {
  Host host;
  Raw const raw(host.address());
  Hello joining = hello();
  joining.token = random_token();
  joining.stream = 1;
  raw.say(pack_hello(joining));
  EXPECT_NE(raw.hear_hello().refused.find("no connection has this token"), std::string::npos);
}

TEST(TransportPeers, AStreamThatWasNotAgreedOnIsRefused) {
  Liar liar;
  Raw const second(liar.address());
  // The raw peer offered no streams in its hello, and another connection's token is not to be guessed; even with it:
  Hello joining = hello();
  joining.stream = 1;
  Host other(options_for(Path::tcp_streams));
  Raw const first(other.address());
  Hello offering = hello();
  offering.streams = 1;
  first.say(pack_hello(offering));
  joining.token = first.hear_hello().token;
  for (unsigned const stream : {2u, 64u}) {
    Raw const raw(other.address());
    joining.stream = stream;
    raw.say(pack_hello(joining));
    EXPECT_NE(raw.hear_hello().refused.find("stream"), std::string::npos);
  }
  // Over the wrong listener nothing is found at all.
  joining.stream = 1;
  second.say(pack_hello(joining));
  EXPECT_NE(second.hear_hello().refused.find("no connection"), std::string::npos);
}

TEST(TransportPeers, MutatedHellosEndInARefusalOrAConnection) {
  Host host;
  std::mt19937 random(11);
  auto const good = pack_hello(hello());
  for (int i = 0; i < 300; ++i) {
    auto bytes = good;
    for (unsigned n = 1 + random() % 4; n > 0; --n) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    Raw raw(host.address());
    raw.say(bytes);
    raw.half_close();
    EXPECT_TRUE(raw.ended()) << i;
  }
  Raw const raw(host.address());  // it listens as before
  raw.say(good);
  EXPECT_EQ(raw.hear_hello().refused, "");
}

// ── liars ────────────────────────────────────────────────────────────────────────────────────────────────

struct Lie {
  char const* name;
  std::function<void(Raw const&)> tell;
  char const* shown;
};
class Liars : public ::testing::TestWithParam<Lie> {};
INSTANTIATE_TEST_SUITE_P(
    , Liars,
    ::testing::Values(
        Lie{"wrong_number", [](Raw const& raw) { raw.say({.type = RecordType::message, .follows = true, .number = 1}); }, "message 1 where 0 is due"},
        Lie{"same_number_twice", [](Raw const& raw) { for (int i = 0; i < 2; ++i) raw.say({.type = RecordType::message, .follows = true, .number = 0}); }, "message 0 where 1"},
        Lie{"unknown_type", [](Raw const& raw) { raw.say({.type = static_cast<RecordType>(77)}); }, "record type 77"},
        Lie{"more_than_granted", [](Raw const& raw) { raw.say({.type = RecordType::message, .follows = true, .number = 0, .sizes = {100 << 20}}); }, "were granted"},
        Lie{"too_large", [](Raw const& raw) { raw.say({.type = RecordType::message, .number = 0, .sizes = {record_size_most, 1}}); }, "are the most"},
        Lie{"kind_not_asked_for", [](Raw const& raw) { raw.say({.type = RecordType::message, .number = 0, .sizes = {10}, .kinds = {FrameKind::object}}); }, "frame 0: kind 1"},
        Lie{"too_many_frames", [](Raw const& raw) {
              std::vector<std::byte> bytes;
              pack_record({.type = RecordType::message}, bytes);
              std::memset(bytes.data() + 4, 0xff, 4);
              raw.say(bytes);
            }, "4294967295 frames"},
        Lie{"body_without_message", [](Raw const& raw) { raw.say({.type = RecordType::body, .number = 0}); }, "not announced"},
        Lie{"announced_twice", [](Raw const& raw) { for (unsigned i = 0; i < 2; ++i) raw.say({.type = RecordType::message, .number = i, .sizes = {10}}); }, "announced"},
        Lie{"streams_it_has_not", [](Raw const& raw) { raw.say({.type = RecordType::message, .follows = true, .nstreams = 3, .chunk_nbytes = 65536, .number = 0, .sizes = {5000}}); }, "3 streams of 0"},
        Lie{"streams_said_to_be_open", [](Raw const& raw) { raw.say({.type = RecordType::streams, .nstreams = 2}); }, "are said to be open"},
        Lie{"asks_for_streams", [](Raw const& raw) { raw.say({.type = RecordType::streams, .please = true, .nstreams = 2}); }, "must open itself"},
        Lie{"behind_a_goodbye", [](Raw const& raw) {
              raw.say({.type = RecordType::message, .number = 0, .sizes = {10}});
              raw.say({.type = RecordType::goodbye});
            }, "goodbye before the body"}),
    [](auto const& info) { return std::string(info.param.name); });

TEST_P(Liars, EndTheirConnectionInWordsAndNoOthers) {
  Liar liar;
  Connection good = liar.engine.connect(liar.address(), options_for(Path::tcp));
  Connection good_there = liar.accepted->wait();
  GetParam().tell(liar.raw);
  Ended ended;
  do {
    ended = receive(liar.connection)->wait();  // what was whole before the lie arrives
  } while (!ended.kind && !::testing::Test::HasFailure());
  EXPECT_EQ(ended.kind, ErrorKind::malformed);
  auto const& what = ended.what;
  EXPECT_NE(what.find(GetParam().shown), std::string::npos) << what;
  EXPECT_TRUE(liar.raw.ended());
  EXPECT_NE(liar.lines->wait().find(GetParam().shown), std::string::npos);
  expect_sent(good, one_frame("still here"));
  EXPECT_EQ(text_of(expect_message(good_there)), "still here");
}

TEST(TransportPeers, AGrantBeyondAllBoundsDoesNoHarm) {
  Liar liar;
  liar.raw.say({.type = RecordType::grant, .number = ~std::uint64_t{0}});
  liar.raw.say({.type = RecordType::grant, .number = 5});
  auto const sent = send(liar.connection, patterns({10}));
  EXPECT_FALSE(sent->wait().kind);
  EXPECT_EQ(liar.raw.hear(record_head_nbytes + 8 + 10).size(), record_head_nbytes + 8 + 10);
}

TEST(TransportPeers, RecordsInPiecesAreOneMessage) {
  Liar liar;
  std::vector<std::byte> bytes;
  pack_record({.type = RecordType::message, .follows = true, .number = 0, .sizes = {5, 5000, 0, 7}}, bytes);
  // Small frames first, then the large one.
  for (auto const& [size, seed] : {std::pair(5u, 0u), std::pair(7u, 3u), std::pair(5000u, 1u)}) {
    auto const frame = pattern(size, seed);
    bytes.insert(bytes.end(), frame.begin(), frame.end());
  }
  auto const coming = receive(liar.connection);
  for (std::size_t at = 0; at < bytes.size(); at += 17) {
    liar.raw.say(std::span(bytes).subspan(at, std::min<std::size_t>(17, bytes.size() - at)));
    if (at < 200) std::this_thread::sleep_for(1ms);
  }
  expect_patterns(coming->wait().frames, {5, 5000, 0, 7});
}

TEST(TransportPeers, HalfClosedInTheMidstOfAMessage) {
  Liar liar;
  liar.raw.say({.type = RecordType::message, .follows = true, .number = 0, .sizes = {5000}});
  liar.raw.say("some");
  liar.raw.half_close();
  EXPECT_EQ(expect_end(liar.connection), "the peer is gone, in the midst of a message");
  EXPECT_TRUE(liar.raw.ended());
}

TEST(TransportPeers, StallInTheMidstOfAMessageEndsInTime) {
  TransportOptions options = options_for(Path::tcp);
  options.stall_timeout = 1'000ms;
  {
    Liar liar(options);
    liar.raw.say({.type = RecordType::message, .follows = true, .number = 0, .sizes = {5000}});
    liar.raw.say("some");
    auto const what = expect_end(liar.connection, ErrorKind::disconnected, 8s);
    EXPECT_NE(what.find("has not moved a byte"), std::string::npos) << what;
  }
  {
    Liar liar(options);  // it lets us send, and reads nothing
    liar.raw.say({.type = RecordType::grant, .number = 1 << 30});
    (void)send(liar.connection, patterns({50'000'000}));
    auto const sent = send(liar.connection, patterns({10}));
    EXPECT_EQ(sent->wait(8s).kind, ErrorKind::disconnected);
  }
  {
    Liar liar(options);  // it announces, is granted, and sends nothing
    liar.raw.say({.type = RecordType::message, .number = 0, .sizes = {50'000'000}});
    expect_end(liar.connection, ErrorKind::disconnected, 8s);
  }
  {
    Liar liar(options);  // idle is not stalled
    auto const waiting = receive(liar.connection);
    EXPECT_FALSE(waiting->there(2'500ms));
    liar.raw.say({.type = RecordType::message, .follows = true, .number = 0, .sizes = {4}});
    liar.raw.say("late");
    EXPECT_EQ(text_of(waiting->wait().frames), "late");
  }
}

TEST(TransportPeers, StallInTheMidstOfARecordEndsInTime) {
  TransportOptions options = options_for(Path::tcp);
  options.stall_timeout = 1s;
  Liar liar(options);
  liar.raw.say(std::vector<std::byte>(10, std::byte{1}));
  EXPECT_NE(expect_end(liar.connection).find("has not moved a byte"), std::string::npos);
}

TEST(TransportPeers, MessagesWithoutBytesDoNotPileUpWithoutBound) {
  TransportOptions options = options_for(Path::tcp);
  options.nframes_most = 100;
  options.window_nbytes = 4096;
  Liar liar(options);
  // What the window lets a peer send, each byte a message of its own, waits for its reader.
  std::uint64_t number = 0;
  for (; number < 2000; ++number) {
    liar.raw.say({.type = RecordType::message, .follows = true, .number = number, .sizes = {1}});
    liar.raw.say("x");
  }
  ASSERT_TRUE(eventually([&] { return liar.connection.stats().messages_received == number; }));
  EXPECT_FALSE(liar.connection.closed());
  // Frames without bytes need no grant.
  for (int i = 0; i < 1000 && !liar.raw.ended(0ms); ++i, ++number) {
    liar.raw.say({.type = RecordType::message, .follows = true, .number = number, .sizes = std::vector<std::uint64_t>(100, 0)});
  }
  EXPECT_TRUE(liar.raw.ended());
  EXPECT_LT(liar.connection.stats().messages_received, 2200u);
  Ended ended;
  do {
    ended = receive(liar.connection)->wait();
  } while (!ended.kind && !::testing::Test::HasFailure());
  EXPECT_EQ(ended.kind, ErrorKind::exhausted);
  EXPECT_NE(ended.what.find("frames wait"), std::string::npos) << ended.what;
}

TEST(TransportPeers, WhoIsGoneBeforeItIsGreetedLeavesNothingBehind) {
  Engine engine(1);
  std::promise<void> go;
  auto const may_go = go.get_future().share();
  auto const accepted = std::make_shared<Told<Connection>>();
  Listener const listener = engine.listen({"127.0.0.1", 0}, options_for(Path::tcp), [accepted, may_go](Connection connection) {
    accepted->tell(std::move(connection));
    may_go.wait();
  });
  Raw first(listener.addresses().front());
  first.say(pack_hello(hello()));
  {
    Connection const connection = accepted->wait();  // the engine's thread waits now
    for (int i = 0; i < 10; ++i) {
      Raw gone(listener.addresses().front());
      gone.say(pack_hello(hello()));
      gone.reset();
    }
    first.end();
    go.set_value();
  }
  Raw last(listener.addresses().front());
  last.say(pack_hello(hello()));
  Connection const connection = accepted->wait();
  EXPECT_TRUE(eventually([&] { return engine.nconnections() == 1; })) << engine.nconnections();
}

TEST(TransportPeers, ACloseThatNobodyReadsEndsInTime) {
  TransportOptions options = options_for(Path::tcp);
  options.close_timeout = 500ms;
  Liar liar(options);
  (void)send(liar.connection, patterns({50'000'000}));  // never granted
  Ended const ended = close(liar.connection)->wait(5s);
  EXPECT_EQ(ended.kind, ErrorKind::disconnected);
  EXPECT_NE(ended.what.find("50000000 bytes could not be handed on"), std::string::npos) << ended.what;
}

TEST(TransportPeers, MutatedStreamsEndInAnErrorOrAMessage) {
  std::vector<std::byte> good;
  for (unsigned i = 0; i < 3; ++i) {
    pack_record({.type = RecordType::message, .follows = true, .number = i, .sizes = {10, 0, 20}}, good);
    good.insert(good.end(), 30, std::byte{7});
    pack_record({.type = RecordType::grant, .number = 1000}, good);
  }
  pack_record({.type = RecordType::goodbye}, good);
  std::mt19937 random(5);
  TransportOptions options = options_for(Path::tcp);
  Host host(options);
  for (int i = 0; i < 300; ++i) {
    auto bytes = good;
    for (unsigned n = 1 + random() % 3; n > 0; --n) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    Raw raw(host.address());
    raw.say(pack_hello(hello()));
    (void)raw.hear_hello();
    Connection connection = host.accepted->wait();
    raw.say(bytes);
    raw.half_close();
    for (int message = 0; message < 10; ++message) {
      if (receive(connection)->wait().kind) break;
    }
    EXPECT_TRUE(connection.closed());
  }
}

// ── shared memory that lies ──────────────────────────────────────────────────────────────────────────────

/// A raw peer that offers a local stream with `memory`; what it is answered.
Hello offer_local(Hello const& theirs, int memory) {
  int const fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path + 1, theirs.local_name.data(), theirs.local_name.size());
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + theirs.local_name.size())), 0);
  Hello joining = hello();
  joining.token = theirs.token;
  joining.stream = 1;
  auto bytes = pack_hello(joining);
  iovec from{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &from;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (memory >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &memory, sizeof memory);
  }
  EXPECT_GT(::sendmsg(fd, &message, 0), 0);
  Raw const raw(fd);
  Hello const answer = raw.hear_hello();
  return answer;
}

TEST(TransportPeers, SharedMemoryThatCouldShrinkIsRefused) {
  Host host(options_for(Path::shared_memory));
  Raw const raw(host.address());
  Hello mine = hello();
  mine.host = HostIdentity::of_this_process();
  mine.local_streams = 2;
  raw.say(pack_hello(mine));
  Hello const theirs = raw.hear_hello();
  ASSERT_NE(theirs.local_name, "");
  int const unsealed = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(unsealed, 4096 + (2 << 20)), 0);
  EXPECT_EQ(offer_local(theirs, unsealed).version_most, 1u);  // nothing was said: ended
  EXPECT_NE(host.lines->wait().find("size can change"), std::string::npos);
  // A file has no seals at all, and may be cut while it is read.
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> const file(std::tmpfile(), std::fclose);
  ASSERT_EQ(::ftruncate(::fileno(file.get()), 4096 + (2 << 20)), 0);
  EXPECT_EQ(offer_local(theirs, ::fileno(file.get())).software, "");
  EXPECT_NE(host.lines->wait().find("size can change"), std::string::npos);
  EXPECT_EQ(offer_local(theirs, -1).software, "");
  EXPECT_NE(host.lines->wait().find("without shared memory"), std::string::npos);
  ::close(unsealed);
}

TEST(TransportPeers, WithoutSharedMemoryTheReasonIsTold) {
  TransportOptions options = options_for(Path::shared_memory);
  TransportOptions off = options;
  off.local_streams = 0;
  Pair pair(options, off);
  auto const sent = send(pair.a, patterns({3'000'000}));
  expect_patterns(expect_message(pair.b), {3'000'000});
  EXPECT_FALSE(sent->wait().kind);
  bool told = false;
  for (Decision const& decision : pair.a.stats().decisions) told = told || (!decision.taken && decision.reason == "turned off");
  EXPECT_TRUE(told);
  EXPECT_EQ(pair.a.stats().path, "tcp");
}

// ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────

std::size_t ndescriptors() {
  std::size_t n = 0;
  for ([[maybe_unused]] auto const& one : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
  return n;
}
std::size_t nthreads() {
  std::size_t n = 0;
  for ([[maybe_unused]] auto const& one : std::filesystem::directory_iterator("/proc/self/task")) ++n;
  return n;
}

/// Lets the process have `n` more descriptors and no others, while it lives.
class FewDescriptors {
 public:
  explicit FewDescriptors(unsigned n) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    std::vector<int> free;
    for (unsigned i = 0; i <= n; ++i) free.push_back(::dup(0));
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(free.back());
    for (int const fd : free) ::close(fd);
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  FewDescriptors(FewDescriptors const&) = delete;
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(TransportDescriptors, AnEngineThatGetsNoneSaysSo) {
  if (sanitized) GTEST_SKIP() << "the sanitizers look at memory through a pipe, which they cannot have here";
  std::optional<ErrorKind> kind;
  {
    FewDescriptors const few(0);
    try {
      Engine const engine(1);
    } catch (Error const& error) {
      kind = error.kind();
    }
  }
  EXPECT_EQ(kind, ErrorKind::exhausted);
}

TEST(TransportDescriptors, AListenerThatGetsNoneSaysSoOnceAndAcceptsLater) {
  if (sanitized) GTEST_SKIP() << "the sanitizers look at memory through a pipe, which they cannot have here";
  Host host(options_for(Path::tcp));
  std::optional<Raw> raw;
  {
    FewDescriptors const few(1);
    raw.emplace(host.address());
    EXPECT_NE(host.lines->wait().find("accept"), std::string::npos);
    EXPECT_FALSE(host.lines->there(1s));
  }
  raw->say(pack_hello(hello()));
  EXPECT_EQ(raw->hear_hello().version_most, transport_version);
}

TEST(TransportDescriptors, SharedMemoryIsThereAgainOnceThereAreSome) {
  if (sanitized) GTEST_SKIP() << "the sanitizers look at memory through a pipe, which they cannot have here";
  TransportOptions const options = options_for(Path::shared_memory);
  Host host(options);
  Connection a, b;
  {
    FewDescriptors const few(2);  // for the two ends, not for the socket of the shared memory
    a = host.engine.connect(host.address(), options);
    b = host.accepted->wait();
    std::string line;
    do {
      line = host.lines->wait();  // the door says that it has none, too
    } while (line.find("no shared memory") == std::string::npos && !line.empty());
    EXPECT_FALSE(line.empty());
  }
  for (std::string const path : {"tcp", "shared memory"}) {
    auto const sent = send(a, patterns({3'000'000}));
    expect_patterns(expect_message(b), {3'000'000});
    EXPECT_FALSE(sent->wait().kind);
    EXPECT_EQ(a.stats().path, path);
    a = host.engine.connect(host.address(), options);
    b = host.accepted->wait();
  }
}

TEST(TransportDescriptors, TheHostIsKnownOnceThereAreSome) {
  if (sanitized) GTEST_SKIP() << "the sanitizers look at memory through a pipe, which they cannot have here";
  pid_t const child = ::fork();  // which looks anew where it is
  if (child == 0) {
    Token drawn{};
    {
      FewDescriptors const few(0);
      drawn = HostIdentity::of_this_process().process;
    }
    HostIdentity const later = HostIdentity::of_this_process();
    ::_exit(!later.boot.empty() && later.process == drawn ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

class TransportNumbers : public ::testing::TestWithParam<Path> {};
INSTANTIATE_TEST_SUITE_P(, TransportNumbers, ::testing::Values(Path::tcp, Path::tcp_streams, Path::shared_memory, Path::process), path_name);

TEST(TransportPeers, AnAttemptThatIsGivenUpLetsItsSocketGo) {
  int const door = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(door, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(door, 64), 0);  // the kernel connects, nobody says anything
  socklen_t length = sizeof address;
  ASSERT_EQ(::getsockname(door, reinterpret_cast<sockaddr*>(&address), &length), 0);
  Engine engine;
  std::size_t const before = ndescriptors();
  for (std::string const host : {"127.0.0.1", "localhost"}) {
    for (int i = 0; i < 20; ++i) {
      auto const told = std::make_shared<Told<ErrorKind>>();
      auto const give_up = engine.connect({host, ntohs(address.sin_port)}, {}, [told](Connection, Error const* error) {
        told->tell(error != nullptr ? error->kind() : ErrorKind::failed);
      });
      if (i % 2 == 0) std::this_thread::sleep_for(5ms);
      give_up();
      EXPECT_EQ(told->wait(), ErrorKind::disconnected);
      give_up();  // again is nothing
    }
  }
  EXPECT_TRUE(eventually([&] { return ndescriptors() <= before; })) << ndescriptors() << " descriptors, " << before << " before";
  ::close(door);
}

TEST_P(TransportNumbers, AThousandConnectionsLeaveNothingBehind) {
  TransportOptions options = options_for(GetParam());
  options.stripe_from_nbytes = 4096;
  Host host(options);
  auto const once = [&](int i) {
    Connection a = host.engine.connect(host.address(), options);
    Connection b = host.accepted->wait();
    auto const sent = send(a, patterns({10'000}));
    expect_patterns(expect_message(b), {10'000});
    EXPECT_FALSE(sent->wait().kind);
    if (i % 3 == 0) {
      EXPECT_FALSE(close(a)->wait().kind);
      expect_end(b);
    } else if (i % 3 == 1) {
      b.abort();
      expect_end(a);
    }
  };
  for (int i = 0; i < 10; ++i) once(i);
  auto const settled = [&] { return host.engine.nconnections() == 0; };
  ASSERT_TRUE(eventually(settled));
  std::size_t const descriptors = ndescriptors();
  std::size_t const threads = nthreads();
  int const rounds = sanitized ? 200 : 1000;
  for (int i = 0; i < rounds; ++i) once(i);
  EXPECT_TRUE(eventually(settled));
  EXPECT_TRUE(eventually([&] { return ndescriptors() <= descriptors; })) << ndescriptors() << " descriptors, " << descriptors << " before";
  EXPECT_EQ(nthreads(), threads);
  std::ifstream maps("/proc/self/maps");
  int rings = 0;
  for (std::string line; std::getline(maps, line);) rings += line.find("memfd:transload") != std::string::npos;
  EXPECT_LE(rings, 8);
}

TEST_P(TransportNumbers, FiveHundredConnectionsAtOnceKeepTheirBytesApart) {
  TransportOptions options = options_for(GetParam());
  Host host(options);
  int const n = sanitized ? 100 : 500;
  std::vector<Connection> a(static_cast<std::size_t>(n));
  for (auto& one : a) one = host.engine.connect(host.address(), options);
  std::vector<Connection> b;
  for (int i = 0; i < n; ++i) b.push_back(host.accepted->wait());
  // The accepted end does not know which one it is: its first message tells.
  for (int i = 0; i < n; ++i) expect_sent(a[static_cast<std::size_t>(i)], one_frame(std::to_string(i)));
  std::vector<int> who;
  for (auto& one : b) who.push_back(std::stoi(text_of(expect_message(one))));
  std::vector<std::shared_ptr<Told<Ended>>> coming;
  for (auto& one : b) coming.push_back(receive(one));
  for (int i = 0; i < n; ++i) (void)send(a[static_cast<std::size_t>(i)], patterns({3000, 20'000u + static_cast<unsigned>(i)}, static_cast<unsigned>(i) * 10));
  for (std::size_t k = 0; k < b.size(); ++k) {
    expect_patterns(coming[k]->wait().frames, {3000, 20'000u + static_cast<unsigned>(who[k])}, static_cast<unsigned>(who[k]) * 10);
  }
}

// ── processes ────────────────────────────────────────────────────────────────────────────────────────────

/// Runs `body` in a forked child, which leaves by _exit with what it returns.
template <class Body>
pid_t fork_child(Body body) {
#if defined(__SANITIZE_ADDRESS__)
  // Unlike malloc's, the locks of this sanitizer's allocator are forked as they are: no other thread may be in it.
  std::this_thread::sleep_for(100ms);
#endif
  pid_t const pid = ::fork();
  if (pid == 0) {
    ::alarm(60);
    ::_exit(body());
  }
  return pid;
}
int exit_status(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

class TransportProcesses : public ::testing::TestWithParam<Path> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the thread sanitizer cannot follow threads that start after a fork";
#endif
  }
};
INSTANTIATE_TEST_SUITE_P(, TransportProcesses, ::testing::Values(Path::tcp, Path::tcp_streams, Path::shared_memory), path_name);

TEST_P(TransportProcesses, EchoWithAForkedChildAndWhatItLeavesWhenKilled) {
  Host host(options_for(GetParam()));
  for (bool const kill : {false, true}) {
    std::size_t const descriptors = ndescriptors();
    pid_t const child = fork_child([&] {
      Connection connection = Engine::process().connect(host.address(), options_for(GetParam()));
      for (;;) {
        Ended ended = receive(connection)->wait(50s);
        if (ended.kind) return ended.what == "closed by the peer" ? 7 : 8;
        (void)send(connection, std::move(ended.frames));
      }
    });
    {
      Connection connection = host.accepted->wait();
      (void)send(connection, patterns({1, 3'000'000}));
      expect_patterns(expect_message(connection), {1, 3'000'000});
      if (kill) {
        auto const sent = send(connection, patterns({100'000'000}));
        auto const coming = receive(connection);
        std::this_thread::sleep_for(3ms);
        ::kill(child, SIGKILL);
        EXPECT_EQ(coming->wait().kind, ErrorKind::disconnected);
        (void)sent->wait();
        EXPECT_EQ(exit_status(child), 1000 + SIGKILL);
      } else {
        EXPECT_FALSE(close(connection)->wait().kind);
        EXPECT_EQ(exit_status(child), 7);
      }
    }
    EXPECT_TRUE(eventually([&] { return host.engine.nconnections() == 0 && ndescriptors() <= descriptors + 1; })) << ndescriptors() << " of " << descriptors;
  }
}

TEST_P(TransportProcesses, AForkedChildLeavesTheParentsConnectionsAlone) {
  Pair pair(GetParam());
  auto const sent = send(pair.a, patterns({3'000'000}));
  expect_patterns(expect_message(pair.b), {3'000'000});
  pid_t const child = fork_child([&] {
    // What it got from its parent is closed here, and can be used and dropped without harm.
    if (!pair.a.closed() || !pair.b.closed()) return 1;
    try {
      (void)pair.a.send(one_frame("x"));
      return 2;
    } catch (Error const& error) {
      if (error.kind() != ErrorKind::disconnected) return 3;
    }
    Frames frames;
    try {
      (void)pair.b.try_receive(frames);
      return 4;
    } catch (Error const&) {
    }
    pair.a = {};
    pair.b.abort();
    if (kept_descriptors() != 0) return 5;
    // It can have connections of its own.
    auto const accepted = std::make_shared<Told<Connection>>();
    Listener const listener = Engine::process().listen({"127.0.0.1", 0}, {}, [accepted](Connection connection) { accepted->tell(std::move(connection)); });
    Connection mine = Engine::process().connect(listener.addresses().front());
    (void)send(mine, one_frame("in the child"));
    Connection there = accepted->wait();
    return text_of(expect_message(there)) == "in the child" ? 0 : 6;
  });
  EXPECT_EQ(exit_status(child), 0);
  expect_sent(pair.a, patterns({2'000'000}));
  expect_patterns(expect_message(pair.b), {2'000'000});
}

TEST_P(TransportProcesses, AChildThatLivesOnDoesNotKeepAConnectionOpen) {
  Pair pair(GetParam());
  expect_sent(pair.a, one_frame("x"));
  (void)expect_message(pair.b);
  pid_t const child = fork_child([] {
    ::pause();
    return 0;
  });
  auto const waiting = receive(pair.b);
  pair.a.abort();
  EXPECT_EQ(waiting->wait(5s).kind, ErrorKind::disconnected);
  ::kill(child, SIGKILL);
  exit_status(child);
}

}  // namespace
}  // namespace transload::test
