// Messages between C++ programs, and between a C++ program and a Python process on Dask's comm `transload://`:
//
//   cpp_echo serve                 sends back every message; prints HOST:PORT, ends with its standard input
//   cpp_echo call HOST:PORT        times messages to a `serve`
//   cpp_echo python HOST:PORT      gives a struct to a Python process (python_side.py) and gets it back
#include <transload/message/msgpack.hpp>
#include <transload/transload.hpp>
#include <transload/transport/engine.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

using transload::Buffer;
using transload::Connection;
using transload::Error;
using transload::Frames;
using transload::msgpack::Packer;

/// The dataclass of weather.py. An aggregate needs no declaration: its fields are found by name.
struct Reading {
  static constexpr std::string_view transload_class = "weather:Reading";
  std::string station;
  std::vector<double> kelvin;
  std::map<std::string, int> flags;
};

// ── messages, one after the other ────────────────────────────────────────────────────────────────────────────

void send(Connection& connection, Frames frames) {
  std::promise<void> sent;
  connection.send(std::move(frames), [&](Error const* error) {
    error != nullptr ? sent.set_exception(std::make_exception_ptr(*error)) : sent.set_value();
  });
  sent.get_future().get();
}

Frames receive(Connection& connection) {
  std::promise<Frames> came;
  connection.receive([&](Frames frames, Error const* error) {
    error != nullptr ? came.set_exception(std::make_exception_ptr(*error)) : came.set_value(std::move(frames));
  });
  return came.get_future().get();
}

Buffer buffer_of(std::span<std::byte const> bytes) {
  Buffer buffer = Buffer::allocate(bytes.size(), transload::default_resource());
  std::ranges::copy(bytes, buffer.writable().begin());
  return buffer;
}

// ── serve ────────────────────────────────────────────────────────────────────────────────────────────────────

/// Sends back what comes, for as long as the peer is there.
class Echo : public std::enable_shared_from_this<Echo> {
 public:
  explicit Echo(Connection connection) : connection_(std::move(connection)) {}
  void next() {
    connection_.receive([self = shared_from_this()](Frames frames, Error const* error) {
      if (error != nullptr) return;  // this was the last owner
      self->connection_.send(std::move(frames));
      self->next();
    });
  }

 private:
  Connection connection_;
};

int serve() {
  transload::Engine engine;
  auto const listener = engine.listen({"127.0.0.1", 0}, {}, [](Connection peer) {
    std::make_shared<Echo>(std::move(peer))->next();
  });
  std::printf("%s\n", listener.addresses().front().text().c_str());
  std::fflush(stdout);
  while (std::cin.get() != std::char_traits<char>::eof()) {
  }
  return 0;
}

// ── call ─────────────────────────────────────────────────────────────────────────────────────────────────────

double median_seconds(Connection& connection, std::size_t nbytes, int trips) {
  std::vector<double> seconds;
  for (int i = 0; i < trips; ++i) {
    Frames frames;
    frames.push_back(Buffer::allocate(nbytes, transload::default_resource()));
    auto const began = std::chrono::steady_clock::now();
    send(connection, std::move(frames));
    Frames const back = receive(connection);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    transload::expects(back.size() == 1 && back[0].nbytes() == nbytes, transload::ErrorKind::failed, "other bytes came back");
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

int call(transload::Address const& address) {
  transload::Engine engine;
  Connection connection = engine.connect(address);
  std::printf("1 kB there and back: %.1f us\n", median_seconds(connection, 1000, 2000) * 1e6);
  constexpr std::size_t large = std::size_t{64} << 20;
  double const seconds = median_seconds(connection, large, 9);
  auto const stats = connection.stats();
  std::printf("64 MiB there and back: %.2f GB/s each way, by %s\n", 2 * large / seconds / 1e9, stats.path.c_str());
  return 0;
}

// ── python ───────────────────────────────────────────────────────────────────────────────────────────────────

/// What both ends of a Dask connection say first, and `transload`: that values may come in our form.
Buffer handshake() {
  Packer out;
  out.map(4);
  out.str("compression");
  out.nil();
  out.str("python");
  out.array(0);
  out.str("pickle-protocol");
  out.integer(5);
  out.str("transload");
  out.map(3);
  out.str("format");
  out.integer(1);
  for (std::string_view const what : {"push", "publish"}) {
    out.str(what);
    out.boolean(true);
  }
  return buffer_of(out.bytes());
}

/// Dask's message {"x": object}: the document, the object's sub-header, and the frames of transload::dumps.
template <class T>
Frames message_of(T const& object) {
  std::vector<Buffer> parts = transload::dumps(object);
  Packer document;
  document.map(1);
  document.str("x");
  document.map(1);
  document.str("__Serialized__");
  document.integer(1);  // the sub-header's frame
  Packer header;
  header.map(2);
  header.str("serializer");
  header.str("transload/1");
  header.str("num-sub-frames");
  header.unsigned_integer(parts.size());
  Frames frames;
  frames.push_back(buffer_of(document.bytes()));
  frames.push_back(buffer_of(header.bytes()));
  for (Buffer& part : parts) frames.push_back(std::move(part));
  return frames;
}

int python(transload::Address const& address) {
  transload::Engine engine;
  Connection connection = engine.connect(address);
  Frames hello;
  hello.push_back(handshake());
  send(connection, std::move(hello));
  (void)receive(connection);  // Python's

  Reading reading{.station = "C++ 20", .kelvin = std::vector<double>(1'000'000), .flags = {{"calm", 1}}};
  std::iota(reading.kelvin.begin(), reading.kelvin.end(), 200.0);
  send(connection, message_of(reading));
  Frames back = receive(connection);
  std::vector<Buffer> parts(std::make_move_iterator(back.begin() + 2), std::make_move_iterator(back.end()));
  auto const again = transload::loads<Reading>(std::move(parts));
  std::printf("back from Python: %s, %zu values from %g K, %zu flags, by %s\n", again.station.c_str(),
              again.kelvin.size(), again.kelvin.front(), again.flags.size(), connection.stats().path.c_str());

  std::promise<void> closed;
  connection.close([&](Error const*) { closed.set_value(); });
  closed.get_future().wait();
  return 0;
}

int main(int argc, char** argv) {
  std::string_view const verb = argc > 1 ? argv[1] : "";
  try {
    if (verb == "serve" && argc == 2) return serve();
    if (verb == "call" && argc == 3) return call(transload::Address::parse(argv[2]));
    if (verb == "python" && argc == 3) return python(transload::Address::parse(argv[2]));
  } catch (std::exception const& error) {
    std::fprintf(stderr, "cpp_echo: %s\n", error.what());
    return 1;
  }
  std::fprintf(stderr, "cpp_echo serve | call HOST:PORT | python HOST:PORT\n");
  return 2;
}
