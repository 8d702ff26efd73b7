#include "transload/transport/record.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "transload/base/error.hpp"
#include "transload/base/limits.hpp"

namespace transload {

namespace {

template <class T>
T read(std::byte const* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

constexpr std::uint8_t flag_follows = 1;
constexpr std::uint8_t flag_please = 1;
constexpr std::uint8_t flag_unable = 1;
constexpr std::uint8_t flag_exported = 2;

}  // namespace

void pack_record(Record const& record, std::vector<std::byte>& out) {
  std::size_t const at = out.size();
  out.resize(at + record_head_nbytes + 8 * record.sizes.size());
  std::byte* const head = out.data() + at;
  auto const nframes = static_cast<std::uint32_t>(record.sizes.size());
  head[0] = static_cast<std::byte>(record.type);
  head[1] = static_cast<std::byte>((record.follows ? flag_follows : 0) | (record.please ? flag_please : 0) | (record.unable ? flag_unable : 0) |
                                   (!record.exported.empty() ? flag_exported : 0));
  head[2] = static_cast<std::byte>(record.nstreams);
  head[3] = std::byte{0};
  std::memcpy(head + 4, &nframes, 4);
  std::memcpy(head + 8, &record.number, 8);
  std::memcpy(head + 16, &record.chunk_nbytes, 4);
  std::memset(head + 20, 0, 4);
  if (nframes > 0) std::memcpy(head + record_head_nbytes, record.sizes.data(), 8 * record.sizes.size());
  for (std::size_t i = 0; i < record.kinds.size(); ++i) head[record_head_nbytes + 8 * i + 7] |= static_cast<std::byte>(record.kinds[i]);
  for (ExportedMemory const& memory : record.exported) pack_exported(memory, out);
}

std::size_t RecordReader::feed(std::span<std::byte const> bytes) {
  std::size_t used = 0;
  if (have_ < record_head_nbytes) {
    used = std::min(bytes.size(), record_head_nbytes - have_);
    std::copy_n(bytes.begin(), used, head_ + have_);
    have_ += used;
    if (have_ < record_head_nbytes) return used;
    read_head();
  }
  while (!complete_ && used < bytes.size()) {
    bool const sizes = record_.sizes.size() < nframes_;
    std::size_t const wanted = sizes ? 8 : ExportedMemory::wire_nbytes;
    std::byte const* part = bytes.data() + used;
    std::size_t const n = std::min(bytes.size() - used, wanted - in_part_);
    used += n;
    have_ += n;
    if (n < wanted) {  // it came in pieces
      std::copy_n(part, n, part_ + in_part_);
      in_part_ += n;
      if (in_part_ < wanted) return used;
      part = part_;
      in_part_ = 0;
    }
    if (sizes) {
      take_size(read<std::uint64_t>(part));
    } else {
      take_exported({part, wanted});
    }
  }
  return used;
}

void RecordReader::take_size(std::uint64_t size) {
  auto const kind = static_cast<unsigned>(size >> record_size_bits);
  size &= record_size_most;
  expects(kind <= limits_.kinds_most, ErrorKind::malformed,
          [&] { return cat("message ", record_.number, ", frame ", record_.sizes.size(), ": kind ", kind, "; this end asked for ", limits_.kinds_most, " at most"); });
  std::uint64_t const before = record_.nbytes + record_.device_nbytes;
  expects(size <= limits_.message_nbytes_most && before <= limits_.message_nbytes_most - size, ErrorKind::malformed, [&] {
    return cat("message ", record_.number, ", frame ", record_.sizes.size(), ": ", size, " bytes behind ", before, "; ", limits_.message_nbytes_most,
               " are the most of a message");
  });
  if (kind != 0 || !record_.kinds.empty()) {
    record_.kinds.resize(record_.sizes.size());
    record_.kinds.push_back(static_cast<FrameKind>(kind));
  }
  bool const device = kind == static_cast<unsigned>(FrameKind::device);
  ndevice_ += device ? 1 : 0;
  (device ? record_.device_nbytes : record_.nbytes) += size;
  record_.sizes.push_back(size);
  check_whole();
}

void RecordReader::take_exported(std::span<std::byte const> bytes) {
  ExportedMemory memory = parse_exported(bytes);
  while (record_.kinds[device_at_] != FrameKind::device) ++device_at_;
  std::size_t const frame = device_at_++;
  expects(memory.nbytes == record_.sizes[frame], ErrorKind::malformed,
          [&] { return cat("message ", record_.number, ", frame ", frame, ": ", record_.sizes[frame], " bytes, of which ", memory.nbytes, " are exported"); });
  record_.exported.push_back(memory);
  check_whole();
}

void RecordReader::check_whole() {
  bool const sized = record_.sizes.size() == nframes_;
  expects(!sized || !exports_ || ndevice_ > 0, ErrorKind::malformed, [&] { return cat("message ", record_.number, ": exported memory, and no frames of it"); });
  if (sized && !record_.kinds.empty()) record_.kinds.resize(nframes_);
  complete_ = sized && record_.exported.size() == (exports_ ? ndevice_ : 0);
}

void RecordReader::read_head() {
  auto const type = std::to_integer<unsigned>(head_[0]);
  auto const flags = std::to_integer<unsigned>(head_[1]);
  expects(type >= 1 && type <= 8, ErrorKind::malformed, [&] { return cat("record type ", type, " is not known"); });
  record_.type = static_cast<RecordType>(type);
  exports_ = knows_device(limits_.kinds_most) && record_.type == RecordType::message && (flags & flag_exported) != 0;
  expects(flags <= (exports_ ? 3 : 1), ErrorKind::malformed, [&] { return cat("record flags ", flags, " are not known"); });
  bool const first = (flags & 1) != 0;
  record_.follows = first && record_.type == RecordType::message;
  record_.please = first && record_.type == RecordType::streams;
  record_.unable = first && record_.type == RecordType::fetch;
  record_.nstreams = std::to_integer<std::uint8_t>(head_[2]);
  record_.number = read<std::uint64_t>(head_ + 8);
  record_.chunk_nbytes = read<std::uint32_t>(head_ + 16);
  expects(record_.nstreams <= limits::streams, ErrorKind::malformed,
          [&] { return cat("record: ", record_.nstreams, " streams; ", limits::streams, " are the most"); });
  bool const striped = record_.nstreams > 0 && record_.type != RecordType::streams;
  expects(!striped || (record_.chunk_nbytes >= 4096 && record_.chunk_nbytes % 64 == 0), ErrorKind::malformed,
          [&] { return cat("chunks of ", record_.chunk_nbytes, " bytes; a multiple of 64 from 4096 on is needed"); });
  nframes_ = record_.type == RecordType::message ? read<std::uint32_t>(head_ + 4) : 0;
  expects(nframes_ <= limits_.nframes_most, ErrorKind::malformed,
          [&] { return cat("message ", record_.number, ": ", nframes_, " frames; ", limits_.nframes_most, " are the most"); });
  ndevice_ = 0;
  device_at_ = 0;
  in_part_ = 0;
  if (nframes_ == 0) check_whole();
}

Record RecordReader::take() {
  expects(complete_, ErrorKind::failed, "RecordReader::take before the record is complete");
  complete_ = false;
  have_ = 0;
  return std::exchange(record_, {});
}

}  // namespace transload
