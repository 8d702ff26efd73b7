#pragma once
/// transload for C++ programs: the verbs, with the names they have in Python. One include for the common case.
///
///   auto const message = transload::serialize(order);            // a struct, a container, a Tree
///   auto const order = transload::deserialize<Order>(message);   // or deserialize(message), a Value
///   transload::save("order.tld", order);                         // what Python's transload.load reads
///   auto const value = transload::load("order.tld");             // any object, as a value tree
///   transload::save("small.tld", order, {.compression = transload::Compression::automatic});

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "transload/adapters/decode.hpp"
#include "transload/adapters/encode.hpp"
#include "transload/adapters/forest.hpp"
#include "transload/adapters/inspect.hpp"
#include "transload/adapters/ndarray.hpp"
#include "transload/adapters/value.hpp"
#include "transload/base/error.hpp"
#include "transload/message/container.hpp"
#include "transload/message/message.hpp"
#include "transload/message/store.hpp"
#include "transload/reflect/fields.hpp"

namespace transload {

/// How the verbs write.
struct WriteOptions {
  std::optional<LayoutLimits> limits = {};            ///< what is packed and split; nothing: as default_limits finds best
  Compression compression = Compression::none;        ///< of each frame where that pays (message/store.hpp)
  int level = default_zstd_level;                     ///< of zstd
  bool checksum = false;                              ///< XXH3 of each frame into the header; files have them in any case
};

/// The message of `object`: anything that `encode` takes (adapters/decode.hpp has the table). Its large arrays are
/// borrowed: an lvalue outlives the message and stays unchanged; a temporary is kept by the message. Frames that were
/// compressed are the message's own.
///
/// @throws Error{unsupported} for what the wire cannot hold; Error{exhausted} without memory.
template <class T>
[[nodiscard]] Message serialize(T&& object, WriteOptions const& options = {}, Resource& resource = default_resource()) {
  Encoder encoder(options.limits, resource);
  if constexpr (std::is_lvalue_reference_v<T>) {
    encode(encoder, object);
  } else {
    auto const kept = std::make_shared<std::remove_cvref_t<T>>(std::forward<T>(object));
    encoder.keep(kept);
    encode(encoder, *kept);
  }
  Message message = encoder.finish();
  if (options.compression == Compression::none && !options.checksum) return message;
  return store(std::move(message), {.compression = options.compression, .level = options.level, .checksum = options.checksum}, resource);
}

/// The object of `message` as a value tree, which keeps the message alive. `Value::open` takes limits too.
[[nodiscard]] inline Value deserialize(Message message) { return Value::open(std::move(message)); }
/// The object of `message` as a T.
template <class T>
[[nodiscard]] T deserialize(Message message) {
  return decode<T>(Value::open(std::move(message)));
}

/// Header and frames as a list of buffers, header first.
template <class T>
[[nodiscard]] std::vector<Buffer> dumps(T&& object, WriteOptions const& options = {}) {
  Message message = serialize(std::forward<T>(object), options);
  std::vector<Buffer> out;
  out.reserve(1 + message.frames.size());
  out.push_back(std::move(message.header));
  for (Buffer& frame : message.frames) out.push_back(std::move(frame));
  return out;
}

/// The object that `dumps` wrote.
///
/// @throws Error{malformed} also for an empty list.
[[nodiscard]] inline Value loads(std::vector<Buffer> buffers) {
  expects(!buffers.empty(), ErrorKind::malformed, "loads: no header");
  Message message;
  message.header = std::move(buffers.front());
  message.frames.assign(std::make_move_iterator(buffers.begin() + 1), std::make_move_iterator(buffers.end()));
  return Value::open(std::move(message));
}
template <class T>
[[nodiscard]] T loads(std::vector<Buffer> buffers) {
  return decode<T>(loads(std::move(buffers)));
}

/// Writes `object` to the file `path`, which is replaced whole or not at all.
template <class T>
void save(std::filesystem::path const& path, T const& object, WriteOptions const& options = {}, SaveOptions how = {}) {
  save_container(path, serialize(object, options), how);
}

/// Maps the file `path`: arrays are used where they lie, a frame's checksum is compared when it is used for the first time.
/// Compressed frames are opened into memory, after their checksums were compared.
[[nodiscard]] inline Value load(std::filesystem::path const& path) { return Value::open(Container::open(path)); }
template <class T>
[[nodiscard]] T load(std::filesystem::path const& path) {
  return decode<T>(load(path));
}

}  // namespace transload
