#pragma once
/// The walk over Python objects: any object by its state, shared references and cycles by memo. docs/format.md, "Nodes".
///
/// This is the only code of the walk that knows Python; what it writes and reads are the core's HeaderWriter and Reader.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "py.hpp"
#include "transload/memory/device.hpp"
#include "transload/message/layout.hpp"

namespace transload::py {

/// A name in the bytes that this process does not trust; becomes transload.Untrusted.
class UntrustedName : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct EncodeOptions {
  bool host = true;            ///< walk the object; else it is pickled whole
  bool cuda = false;           ///< a GPU's memory stays there, as frames of family cuda; else its bytes come to host memory
  std::uint64_t device_least = 0;  ///< with `cuda`: as long as there are so many bytes of it
  std::uint64_t device_pack = 0;   ///< payloads of a GPU's memory up to so many bytes share packs, where that is more than others do
  bool names = true;           ///< names that are not trusted are allowed
  bool pickle = true;          ///< so are objects that only pickle takes; implies `names`
  std::optional<LayoutLimits> limits;  ///< what is packed and split; nothing: as default_limits finds best
  PyObject* record = nullptr;  ///< a list that gets one tuple a leaf: (path, type, adapter, family, payloads, nbytes, reason)
};

struct Encoded {
  Ref header;    ///< bytes
  Ref frames;    ///< list of memoryviews
  Ref families;  ///< tuple of str
};

/// Encodes `object`. Frames of large payloads borrow the memory of the object they came from and keep it alive; they are
/// writable where that memory is. The GIL is held throughout.
///
/// @throws Error{unsupported} with the place in the object where no allowed family takes it.
/// @throws Raised what the object's own methods raise, with a note that says where.
[[nodiscard]] Encoded encode(PyObject* object, EncodeOptions const& options);

/// A message that makes the receiver raise with `text`.
[[nodiscard]] Ref encode_error(std::string_view text);

struct DecodeOptions {
  bool host = true;     ///< allow family host; else only a pickle of the whole object, or an error
  bool names = false;   ///< names that are not trusted are imported and used as the bytes say: whoever sent them is trusted
  bool pickle = false;  ///< allow family pickle: pickles are run; implies `names`
  std::optional<int> device = {};  ///< where a GPU's memory goes that came in host memory; nothing: the current device. `host_twin`: all of it comes to host memory
  std::optional<std::uint64_t> most_nbytes = {};  ///< that compressed frames may claim together; nothing: the machine's memory
};

/// Rebuilds the object. Arrays lie in the frames where those allow it (writable where the sender's were, aligned), else in one copy.
///
/// @throws Error{malformed} for bytes that are not what docs/format.md says, or whose values a class refuses (cause chained).
/// @throws UntrustedName before anything is built.
[[nodiscard]] Ref decode(std::span<std::byte const> header, PyObject* frames, DecodeOptions options);

/// Counts bytes or items that a stand-in or an adapter copies out of its arguments: a few bytes can refer to a large part of the message
/// again and again. Belongs to the innermost decode on this thread; outside of one it does nothing.
///
/// @throws Error{malformed} when the copies are more than twice the message.
void charge_copy(std::uint64_t nbytes);
/// Likewise for the hashes of the elements of a container, which a stand-in is about to make keys.
void charge_keys(PyObject* keys);

/// Bytes of stack that a walk leaves free; nesting that would pass it is refused.
class StackGuard {
 public:
  StackGuard();
  /// Whether there is room for one more level.
  [[nodiscard]] bool room() const noexcept { return reinterpret_cast<char const*>(__builtin_frame_address(0)) > low_; }
  /// How many levels of so many bytes fit from here on, `most` of them.
  [[nodiscard]] std::size_t levels(std::size_t nbytes, std::size_t most) const noexcept {
    auto const* const here = reinterpret_cast<char const*>(__builtin_frame_address(0));
    return here > low_ ? std::min(most, static_cast<std::size_t>(here - low_) / nbytes) : 0;
  }

 private:
  char const* low_;
};

}  // namespace transload::py
