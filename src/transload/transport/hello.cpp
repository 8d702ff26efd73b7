#include "transload/transport/hello.hpp"

#include <algorithm>
#include <cstring>

#include "transload/base/error.hpp"
#include "transload/base/limits.hpp"
#include "transload/message/msgpack.hpp"

namespace transload {

namespace {

std::uint64_t little_endian(std::byte const* at) {
  std::uint64_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

Token token_from(std::span<std::byte const> bytes, std::string_view field) {
  Token token;
  expects(bytes.size() == token.size(), ErrorKind::malformed, [&] { return cat("hello, ", field, ": ", bytes.size(), " bytes, 16 are needed"); });
  std::copy(bytes.begin(), bytes.end(), token.begin());
  return token;
}

/// What a stranger says in words, as a part of one line of a log: no control characters, and not long.
std::string one_line(std::string_view text) {
  constexpr std::size_t most = 500;
  std::string line(text.substr(0, most));
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return line;
}

HostIdentity parse_host(msgpack::Reader& reader) {
  HostIdentity host;
  for (std::size_t n = reader.map("host"); n > 0; --n) {
    std::string_view const key = reader.str("key of host");
    if (key == "boot") {
      host.boot = reader.str(key);
    } else if (key == "net") {
      host.net_namespace = reader.count(key, INT64_MAX);
    } else if (key == "uid") {
      host.uid = static_cast<std::uint32_t>(reader.count(key, UINT32_MAX));
    } else if (key == "pid") {
      host.pid = static_cast<std::uint32_t>(reader.count(key, UINT32_MAX));
    } else if (key == "process") {
      host.process = token_from(reader.bin(key), key);
    } else {
      reader.skip();
    }
  }
  return host;
}

}  // namespace

std::vector<std::byte> pack_hello(Hello const& hello) {
  msgpack::Packer packer;
  bool const refused = !hello.refused.empty();
  packer.map(refused ? 3 : 14);
  packer.str("version");
  packer.array(2);
  packer.unsigned_integer(hello.version_least);
  packer.unsigned_integer(hello.version_most);
  packer.str("software");
  packer.str(hello.software);
  if (refused) {
    packer.str("refused");
    packer.str(hello.refused);
  } else {
    packer.str("token");
    packer.bin(hello.token);
    packer.str("stream");
    packer.unsigned_integer(hello.stream);
    packer.str("host");
    packer.map(5);
    packer.str("boot");
    packer.str(hello.host.boot);
    packer.str("net");
    packer.unsigned_integer(hello.host.net_namespace);
    packer.str("uid");
    packer.unsigned_integer(hello.host.uid);
    packer.str("pid");
    packer.unsigned_integer(hello.host.pid);
    packer.str("process");
    packer.bin(hello.host.process);
    packer.str("local-name");
    packer.str(hello.local_name);
    packer.str("frames");
    packer.unsigned_integer(hello.nframes_most);
    packer.str("message-bytes");
    packer.unsigned_integer(hello.message_nbytes_most);
    packer.str("window");
    packer.unsigned_integer(hello.window_nbytes);
    packer.str("streams");
    packer.unsigned_integer(hello.streams);
    packer.str("local-streams");
    packer.unsigned_integer(hello.local_streams);
    packer.str("same-process");
    packer.boolean(hello.same_process);
    packer.str("kinds");
    packer.unsigned_integer(hello.kinds);
    packer.str("exports");
    packer.boolean(hello.exports);
  }
  std::vector<std::byte> bytes(hello_head_nbytes + packer.size());
  std::copy(hello_magic.begin(), hello_magic.end(), bytes.begin());
  auto const n = static_cast<std::uint32_t>(packer.size());
  std::memcpy(bytes.data() + hello_magic.size(), &n, sizeof n);
  std::copy(packer.bytes().begin(), packer.bytes().end(), bytes.begin() + hello_head_nbytes);
  return bytes;
}

bool may_be_hello(std::span<std::byte const> bytes) noexcept {
  std::size_t const n = std::min(bytes.size(), hello_magic.size());
  return std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n), hello_magic.begin());
}

std::size_t hello_nbytes(std::span<std::byte const> head) {
  expects(head.size() == hello_head_nbytes && may_be_hello(head), ErrorKind::malformed,
          [&] { return cat("not a transload peer; its first bytes look like ", looks_like(head)); });
  std::uint32_t n;
  std::memcpy(&n, head.data() + hello_magic.size(), sizeof n);
  expects(n <= limits::hello_nbytes, ErrorKind::malformed, [&] { return cat("hello of ", n, " bytes; ", limits::hello_nbytes, " are the most"); });
  return n;
}

Hello parse_hello(std::span<std::byte const> map) {
  Hello hello;
  hello.version_least = hello.version_most = 0;
  msgpack::Reader reader(map);
  try {
    for (std::size_t n = reader.map("hello"); n > 0; --n) {
      std::string_view const key = reader.str("key");
      if (key == "version") {
        expects(reader.array(key) == 2, ErrorKind::malformed, "version: two numbers are needed");
        hello.version_least = static_cast<unsigned>(reader.count(key, UINT32_MAX));
        hello.version_most = static_cast<unsigned>(reader.count(key, UINT32_MAX));
      } else if (key == "software") {
        hello.software = one_line(reader.str(key));
      } else if (key == "refused") {
        hello.refused = one_line(reader.str(key));
      } else if (key == "token") {
        hello.token = token_from(reader.bin(key), key);
      } else if (key == "stream") {
        hello.stream = static_cast<unsigned>(reader.count(key, limits::streams));
      } else if (key == "host") {
        hello.host = parse_host(reader);
      } else if (key == "local-name") {
        hello.local_name = reader.str(key);
      } else if (key == "frames") {
        hello.nframes_most = reader.count(key, INT64_MAX);
      } else if (key == "message-bytes") {
        hello.message_nbytes_most = reader.count(key, INT64_MAX);
      } else if (key == "window") {
        hello.window_nbytes = reader.count(key, limits::window_nbytes);
      } else if (key == "streams") {
        hello.streams = static_cast<unsigned>(reader.count(key, UINT32_MAX));
      } else if (key == "local-streams") {
        hello.local_streams = static_cast<unsigned>(reader.count(key, UINT32_MAX));
      } else if (key == "same-process") {
        hello.same_process = reader.boolean(key);
      } else if (key == "kinds") {
        hello.kinds = static_cast<unsigned>(reader.count(key, UINT32_MAX));
      } else if (key == "exports") {
        hello.exports = reader.boolean(key);
      } else {
        reader.skip();
      }
    }
    expects(reader.done(), ErrorKind::malformed, "bytes behind the map");
    expects(hello.version_least <= hello.version_most && hello.version_most > 0, ErrorKind::malformed,
            [&] { return cat("version: [", hello.version_least, ", ", hello.version_most, "] is no range"); });
  } catch (Error const& error) {
    throw Error(error.kind(), cat("hello: ", error.what()));
  }
  hello.streams = std::min(hello.streams, limits::streams);
  hello.local_streams = std::min(hello.local_streams, limits::streams);
  return hello;
}

unsigned common_version(Hello const& mine, Hello const& theirs) {
  unsigned const most = std::min(mine.version_most, theirs.version_most);
  unsigned const least = std::max(mine.version_least, theirs.version_least);
  expects(least <= most, ErrorKind::unsupported, [&] {
    auto const range = [](Hello const& hello) { return cat(hello.version_least, " … ", hello.version_most, " (", hello.software, ")"); };
    return cat("no common version of the transport: ", range(mine), " here, ", range(theirs), " there");
  });
  return most;
}

std::string looks_like(std::span<std::byte const> bytes) {
  std::string_view const text{reinterpret_cast<char const*>(bytes.data()), bytes.size()};
  for (std::string_view const verb : {"GET ", "POST", "HEAD", "PUT ", "OPTI", "CONN", "DELE", "PATC", "HTTP"}) {
    if (text.starts_with(verb)) return "HTTP";
  }
  if (text.starts_with("SSH-")) return "SSH";
  if (text.starts_with("PRI ")) return "HTTP/2";
  if (text.size() >= 2 && text[0] == 0x16 && text[1] == 0x03) return "TLS";
  // Dask's first message: bytes of the first read, number of frames, sizes; it is a small map in one frame.
  if (bytes.size() >= 8 && little_endian(bytes.data()) < 1'000'000 && (bytes.size() < 12 || bytes[8] == std::byte{1})) return "Dask's tcp://";
  static constexpr char digits[] = "0123456789abcdef";
  std::string shown = bytes.empty() ? "nothing" : "the bytes";
  for (std::byte const b : bytes.first(std::min<std::size_t>(bytes.size(), 12))) {
    shown += ' ';
    shown += digits[static_cast<unsigned>(b) >> 4];
    shown += digits[static_cast<unsigned>(b) & 15];
  }
  return shown;
}

}  // namespace transload
