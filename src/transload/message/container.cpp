#include "transload/message/container.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <random>
#include <string>
#include <system_error>

#include "transload/base/error.hpp"
#include "transload/base/limits.hpp"
#include "transload/message/checksum.hpp"

namespace transload {

namespace {

constexpr std::array<unsigned char, 8> magic = {0x89, 'T', 'L', 'D', '\r', '\n', 0x1a, '\n'};
constexpr std::uint32_t container_version = 1;
constexpr std::size_t head_nbytes = 64;
constexpr std::size_t entry_nbytes = 24;
constexpr std::size_t summed_nbytes = 56;  // of the head: all before its own checksum
constexpr std::uint64_t frame_align = 64;
constexpr std::array<std::byte, frame_align> zeros{};

constexpr std::uint64_t align_up(std::uint64_t offset) noexcept { return (offset + frame_align - 1) & ~(frame_align - 1); }

template <class T>
T get(std::byte const* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <class T>
void put(std::byte* at, T value) noexcept {
  std::memcpy(at, &value, sizeof(T));
}

[[noreturn]] void bad(std::uint64_t offset, std::string_view what) { raise(ErrorKind::malformed, cat("container byte ", offset, ": ", what)); }

/// What the head says, after it was checked as far as it can be alone.
struct Head {
  std::uint64_t nframes;
  std::uint64_t header_nbytes;
  std::uint64_t header_xxh3;
  std::uint64_t total;
  std::uint64_t head_xxh3;

  [[nodiscard]] std::uint64_t table_nbytes() const noexcept { return nframes * entry_nbytes; }
  [[nodiscard]] std::uint64_t header_offset() const noexcept { return head_nbytes + table_nbytes(); }

  static Head parse(std::span<std::byte const, head_nbytes> bytes) {
    if (std::memcmp(bytes.data(), magic.data(), magic.size()) != 0) bad(0, "magic: these are not a container's first bytes");
    auto const version = get<std::uint32_t>(bytes.data() + 8);
    if (version != container_version) bad(8, cat("version: ", version, " is not known here; this reader knows ", container_version));
    auto const flags = get<std::uint32_t>(bytes.data() + 12);
    if (flags != 0) bad(12, cat("flags: ", flags, ", 0 is needed"));
    Head const head{.nframes = get<std::uint64_t>(bytes.data() + 16),
                    .header_nbytes = get<std::uint64_t>(bytes.data() + 24),
                    .header_xxh3 = get<std::uint64_t>(bytes.data() + 32),
                    .total = get<std::uint64_t>(bytes.data() + 40),
                    .head_xxh3 = get<std::uint64_t>(bytes.data() + 56)};
    if (head.nframes > limits::table_entries) bad(16, cat("nframes: ", head.nframes, ", the limit is ", limits::table_entries));
    if (head.header_nbytes > limits::header_nbytes) {
      bad(24, cat("header_nbytes: ", head.header_nbytes, ", the limit is ", limits::header_nbytes));
    }
    if (get<std::uint64_t>(bytes.data() + 48) != 0) bad(48, "reserved: 0 is needed");
    if (head.total < head.header_offset() + head.header_nbytes) {
      bad(40, cat("total: ", head.total, " bytes, table and header need ", head.header_offset() + head.header_nbytes));
    }
    return head;
  }
};

/// Follows the table: where each frame must lie is known from the sizes, so the offsets are only compared.
class TableReader {
 public:
  explicit TableReader(Head const& head) noexcept : head_(head), end_(head.header_offset() + head.header_nbytes) {}

  struct Entry {
    std::uint64_t offset;
    std::uint64_t nbytes;
    std::uint64_t xxh3;
    std::uint64_t gap;
  };

  Entry next(std::byte const* bytes) {
    std::uint64_t const at = head_nbytes + index_ * entry_nbytes;
    Entry entry{.offset = get<std::uint64_t>(bytes),
                .nbytes = get<std::uint64_t>(bytes + 8),
                .xxh3 = get<std::uint64_t>(bytes + 16),
                .gap = 0};
    std::uint64_t const needed = entry.nbytes == 0 ? end_ : align_up(end_);  // end_ <= total <= 2^64 - 64, checked below
    if (entry.offset != needed) bad(at, cat("frame ", index_, ": offset ", entry.offset, ", its place is ", needed));
    if (entry.nbytes != 0) {
      if (needed > head_.total || entry.nbytes > head_.total - needed) {
        bad(at + 8, cat("frame ", index_, ": ", entry.nbytes, " bytes from ", needed, " on, the container has ", head_.total));
      }
      entry.gap = needed - end_;
      end_ = needed + entry.nbytes;
    }
    ++index_;
    return entry;
  }

  void finish() const {
    if (end_ != head_.total) bad(40, cat("total: ", head_.total, " bytes, frames end at ", end_));
  }

 private:
  Head head_;
  std::uint64_t end_;
  std::uint64_t index_ = 0;
};

void check_total(Head const& head) {
  if (head.total > limits::payload_nbytes) bad(40, cat("total: ", head.total, " bytes, the limit is ", limits::payload_nbytes));
}

void check_frame_bytes(std::size_t i, std::uint64_t offset, std::uint64_t gap_nbytes, std::span<std::byte const> gap,
                       std::span<std::byte const> bytes, std::uint64_t wanted) {
  if (std::any_of(gap.begin(), gap.end(), [](std::byte b) { return b != std::byte{0}; })) {
    bad(offset - gap_nbytes, cat("frame ", i, ": the gap before it is not zero"));
  }
  if (xxh3(bytes) != wanted) bad(offset, cat("frame ", i, ": its XXH3 is not what the table says"));
}

/// Head, table and header, and then gaps and frames, in the order of the container.
struct Parts {
  std::vector<std::byte> front;  // head and table
  std::vector<std::span<std::byte const>> rest;
  std::uint64_t total = 0;
};

std::uint64_t place_frames(Message const& message, std::byte* table, std::vector<std::span<std::byte const>>* rest) {
  std::uint64_t end = head_nbytes + message.frames.size() * entry_nbytes + message.header.nbytes();
  for (std::size_t i = 0; i < message.frames.size(); ++i) {
    Buffer const& frame = message.frames[i];
    expects(frame.kind() != MemoryKind::device, ErrorKind::unsupported,
            [&] { return cat("frame ", i, ": device memory; bring it to the host before it is written"); });
    std::uint64_t const offset = frame.empty() ? end : align_up(end);
    if (rest != nullptr && offset > end) rest->push_back(std::span(zeros).first(offset - end));
    if (rest != nullptr && !frame.empty()) rest->push_back(frame.bytes());
    if (table != nullptr) {
      put(table + i * entry_nbytes, offset);
      put(table + i * entry_nbytes + 8, std::uint64_t{frame.nbytes()});
      put(table + i * entry_nbytes + 16, xxh3(frame.bytes()));
    }
    end = offset + frame.nbytes();
  }
  return end;
}

Parts make_parts(Message const& message) {
  expects(message.frames.size() <= limits::table_entries && message.header.nbytes() <= limits::header_nbytes, ErrorKind::unsupported, [&] {
    return cat(message.frames.size(), " frames and a header of ", message.header.nbytes(), " bytes: more than a container takes");
  });
  Parts parts;
  parts.front.resize(head_nbytes + message.frames.size() * entry_nbytes);
  parts.rest.reserve(1 + 2 * message.frames.size());
  parts.rest.push_back(message.header.bytes());
  std::byte* const head = parts.front.data();
  parts.total = place_frames(message, head + head_nbytes, &parts.rest);
  std::memcpy(head, magic.data(), magic.size());
  put(head + 8, container_version);
  put(head + 12, std::uint32_t{0});
  put(head + 16, std::uint64_t{message.frames.size()});
  put(head + 24, std::uint64_t{message.header.nbytes()});
  put(head + 32, xxh3(message.header.bytes()));
  put(head + 40, parts.total);
  put(head + 48, std::uint64_t{0});
  auto const front = std::span<std::byte const>(parts.front);
  put(head + 56, xxh3({front.first(summed_nbytes), front.subspan(head_nbytes)}));
  return parts;
}

[[noreturn]] void fail(std::filesystem::path const& path, char const* what, int error) {
  bool const full = error == ENOSPC || error == EDQUOT || error == ENOMEM || error == EMFILE || error == ENFILE;
  raise(full ? ErrorKind::exhausted : ErrorKind::failed, cat(path.string(), ": ", what, ": ", std::generic_category().message(error)));
}

class File {
 public:
  File(int fd, std::filesystem::path path) : fd_(fd), path_(std::move(path)) {
    if (fd_ < 0) fail(path_, "cannot be opened", errno);
  }
  File(File const&) = delete;
  File& operator=(File const&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }

  [[nodiscard]] int fd() const noexcept { return fd_; }

  void write(Parts const& parts) {
    std::vector<iovec> pieces;
    pieces.reserve(1 + parts.rest.size());
    auto const add = [&](std::span<std::byte const> bytes) {
      if (!bytes.empty()) pieces.push_back({.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()});
    };
    add(parts.front);
    for (auto const bytes : parts.rest) add(bytes);
    for (std::size_t first = 0; first < pieces.size();) {
      auto const n = static_cast<int>(std::min<std::size_t>(pieces.size() - first, IOV_MAX));
      ssize_t const wrote = ::writev(fd_, pieces.data() + first, n);
      if (wrote < 0) {
        if (errno == EINTR) continue;
        fail(path_, "cannot be written", errno);
      }
      auto left = static_cast<std::size_t>(wrote);
      while (first < pieces.size() && left >= pieces[first].iov_len) left -= pieces[first++].iov_len;
      if (left > 0) {
        pieces[first].iov_base = static_cast<std::byte*>(pieces[first].iov_base) + left;
        pieces[first].iov_len -= left;
      }
    }
  }

  void sync() {
    if (::fsync(fd_) != 0) fail(path_, "cannot be synced", errno);
  }

  void close() {
    int const fd = fd_;
    fd_ = -1;
    if (::close(fd) != 0) fail(path_, "cannot be closed", errno);
  }

 private:
  int fd_;
  std::filesystem::path path_;
};

/// A name that goes away again unless it was given to the file it is for.
class Temporary {
 public:
  explicit Temporary(std::filesystem::path const& target) {
    // A counter beside the random part: two threads never meet, and a left-over of a killed process is stepped over.
    static std::atomic<unsigned> counter{0};
    auto const random = std::random_device{}();
    path_ = target;
    path_.replace_filename(cat(".", target.filename().string(), ".", ::getpid(), "-", counter++, "-", random, ".tmp"));
  }
  Temporary(Temporary const&) = delete;
  Temporary& operator=(Temporary const&) = delete;
  ~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }

  void rename_to(std::filesystem::path const& target) {
    if (::rename(path_.c_str(), target.c_str()) != 0) fail(target, "cannot be replaced", errno);
    path_.clear();
  }

 private:
  std::filesystem::path path_;
};

/// Reads `nbytes` bytes in steps, so that memory grows with what has arrived.
std::vector<std::byte> read_grown(Source const& source, std::uint64_t nbytes) {
  constexpr std::uint64_t step = std::uint64_t{1} << 20;
  std::vector<std::byte> bytes;
  while (bytes.size() < nbytes) {
    std::size_t const at = bytes.size();
    bytes.resize(at + std::min(step, nbytes - at));
    source(std::span(bytes).subspan(at));
  }
  return bytes;
}

}  // namespace

std::uint64_t container_nbytes(Message const& message) { return place_frames(message, nullptr, nullptr); }

void write_container(Message const& message, Sink const& sink) {
  Parts const parts = make_parts(message);
  sink(parts.front);
  for (auto const bytes : parts.rest) sink(bytes);
}

void save_container(std::filesystem::path const& path, Message const& message, SaveOptions options) {
  Parts const parts = make_parts(message);
  std::error_code ignored;
  // Through a link to the file that it names, as writing in place would.
  std::filesystem::path target = std::filesystem::is_symlink(path, ignored) ? std::filesystem::weakly_canonical(path, ignored) : path;
  if (target.empty()) target = path;
  auto const status = std::filesystem::status(target, ignored);
  if (std::filesystem::is_directory(status)) fail(path, "cannot be written", EISDIR);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    File file(::open(target.c_str(), O_WRONLY | O_CLOEXEC), target);
    file.write(parts);
    file.close();
    return;
  }
  Temporary temporary(target);
  File file(::open(temporary.path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666), temporary.path());
  if (std::filesystem::exists(status)) (void)::fchmod(file.fd(), static_cast<mode_t>(status.permissions()) & 07777U);
  file.write(parts);
  if (options.sync) file.sync();
  file.close();
  temporary.rename_to(target);
  if (options.sync) {
    auto const folder = target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
    File directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), folder);
    directory.sync();
  }
}

Container Container::parse(Buffer bytes, Check check) {
  expects(bytes.kind() != MemoryKind::device, ErrorKind::unsupported, "container: device memory; bring it to the host first");
  auto const all = bytes.bytes();
  if (all.size() < head_nbytes) bad(all.size(), cat("the container ends in its head, which has ", head_nbytes, " bytes"));
  Head const head = Head::parse(all.first<head_nbytes>());
  check_total(head);
  if (head.total > all.size()) bad(all.size(), cat("the container ends here, ", head.total, " bytes are needed"));
  if (head.total < all.size()) bad(head.total, cat(all.size() - head.total, " bytes behind the container"));
  auto const table = all.subspan(head_nbytes, head.table_nbytes());
  if (xxh3({all.first(summed_nbytes), table}) != head.head_xxh3) bad(56, "the XXH3 of head and table is not what the head says");

  Container container;
  container.header_ = all.subspan(head.header_offset(), head.header_nbytes);
  if (xxh3(container.header_) != head.header_xxh3) bad(32, "the XXH3 of the header is not what the head says");
  TableReader reader(head);
  container.frames_.reserve(head.nframes);
  for (std::uint64_t i = 0; i < head.nframes; ++i) {
    auto const entry = reader.next(table.data() + i * entry_nbytes);
    container.frames_.push_back({.offset = entry.offset, .nbytes = entry.nbytes, .xxh3 = entry.xxh3, .gap = entry.gap});
  }
  reader.finish();
  container.checked_ = std::make_unique<std::atomic<bool>[]>(head.nframes);
  container.whole_ = std::make_shared<Buffer>(std::move(bytes));
  if (check == Check::all) container.check_all();
  return container;
}

Container Container::open(std::filesystem::path const& path, Check check) {
  File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC), path);
  struct stat status {};
  if (::fstat(file.fd(), &status) != 0) fail(path, "cannot be asked for its size", errno);
  if (S_ISDIR(status.st_mode)) fail(path, "cannot be opened", EISDIR);
  auto const nbytes = static_cast<std::size_t>(status.st_size);
  Buffer bytes;
  if (nbytes > 0) {
    void* const at = ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.fd(), 0);
    if (at == MAP_FAILED) fail(path, "cannot be mapped", errno);
    std::shared_ptr<void const> keeper(static_cast<void const*>(at), [nbytes](void const* mapped) { ::munmap(const_cast<void*>(mapped), nbytes); });
    bytes = Buffer::borrow_writable({static_cast<std::byte*>(at), nbytes}, std::move(keeper));
  }
  try {
    return parse(std::move(bytes), check);
  } catch (Error const& error) {
    raise(error.kind(), cat(path.string(), ": ", error.what()));
  }
}

Buffer Container::part(std::span<std::byte const> bytes) const {
  if (whole_->readonly()) return Buffer::borrow(bytes, whole_);
  return Buffer::borrow_writable({const_cast<std::byte*>(bytes.data()), bytes.size()}, whole_);
}

void Container::check_frame(std::size_t i) const {
  Frame const& frame = frames_.at(i);
  if (checked_[i].load(std::memory_order_acquire)) return;
  auto const all = whole_->bytes();
  check_frame_bytes(i, frame.offset, frame.gap, all.subspan(frame.offset - frame.gap, frame.gap), all.subspan(frame.offset, frame.nbytes),
                    frame.xxh3);
  checked_[i].store(true, std::memory_order_release);
}

Buffer Container::frame(std::size_t i) const {
  check_frame(i);
  return part(whole_->bytes().subspan(frames_[i].offset, frames_[i].nbytes));
}

void Container::check_all() const {
  for (std::size_t i = 0; i < frames_.size(); ++i) check_frame(i);
}

Message Container::message(Check check) const {
  if (check == Check::all) check_all();
  Message message;
  message.header = Buffer::borrow(header_, whole_);
  message.frames.reserve(frames_.size());
  for (Frame const& frame : frames_) message.frames.push_back(part(whole_->bytes().subspan(frame.offset, frame.nbytes)));
  return message;
}

Message read_container(Source const& source, Resource& resource, ReadLimits limits) {
  std::array<std::byte, head_nbytes> first;
  source(first);
  Head const head = Head::parse(first);
  check_total(head);
  expects(head.total <= limits.total_nbytes, ErrorKind::exhausted,
          [&] { return cat("container byte 40: total: ", head.total, " bytes, the limit here is ", limits.total_nbytes); });
  std::vector<std::byte> const table = read_grown(source, head.table_nbytes());
  if (xxh3({std::span<std::byte const>(first).first(summed_nbytes), table}) != head.head_xxh3) {
    bad(56, "the XXH3 of head and table is not what the head says");
  }
  TableReader reader(head);
  std::vector<TableReader::Entry> entries;
  entries.reserve(head.nframes);
  for (std::uint64_t i = 0; i < head.nframes; ++i) entries.push_back(reader.next(table.data() + i * entry_nbytes));
  reader.finish();

  Message message;
  auto header = std::make_shared<std::vector<std::byte>>(read_grown(source, head.header_nbytes));
  if (xxh3(*header) != head.header_xxh3) bad(32, "the XXH3 of the header is not what the head says");
  message.header = Buffer::borrow(*header, header);
  message.frames.reserve(head.nframes);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    auto const& entry = entries[i];
    std::array<std::byte, frame_align> gap;
    if (entry.gap > 0) source(std::span(gap).first(entry.gap));
    Buffer frame = Buffer::allocate(entry.nbytes, resource);
    if (!frame.empty()) source(frame.writable());
    check_frame_bytes(i, entry.offset, entry.gap, std::span<std::byte const>(gap).first(entry.gap), frame.bytes(), entry.xxh3);
    message.frames.push_back(std::move(frame));
  }
  return message;
}

}  // namespace transload
