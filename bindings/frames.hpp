#pragma once
/// Frames at the border to Python: from payloads on the way out, to payloads on the way in.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device.hpp"
#include "py.hpp"
#include "transload/memory/buffer.hpp"
#include "transload/message/header.hpp"
#include "transload/message/layout.hpp"
#include "transload/message/message.hpp"

namespace transload::py {

/// What keeps a payload's bytes alive: an exported buffer, an object, or memory of our own.
struct Keeper {
  BufferView view;
  Ref object;
  Buffer block;                        ///< from a resource
  std::shared_ptr<void const> memory;  ///< whatever else holds it
  std::vector<std::shared_ptr<Keeper>> others;  ///< a payload made of the union of several needs all of theirs
  bool readonly = true;
  std::optional<int> device;  ///< the bytes are of this GPU's memory
  StreamHandle stream = 0;    ///< and this stream's work so far writes them

  /// Writable memory from the process's pool, 64-byte aligned.
  [[nodiscard]] static Keeper allocate(std::size_t nbytes, std::byte*& data);
};

/// The payloads of a message under way to frames: each `HeaderWriter` payload with its keeper, in the same order.
class Outgoing {
 public:
  explicit Outgoing(HeaderWriter& writer) : writer_(writer) {}

  std::uint32_t add(std::span<std::byte const> bytes, Keeper keeper) {
    bool const on_device = keeper.device.has_value();
    keepers_.push_back(std::make_shared<Keeper>(std::move(keeper)));
    return on_device ? writer_.add_device_payload(bytes) : writer_.add_payload(bytes);
  }

  /// The frames as a list of 1-D byte memoryviews: the pack is gathered, large payloads are borrowed with their keepers.
  /// A borrowed frame is writable where its source is. Those of a GPU's memory stay there as DeviceMemory (`keep_on_device`), else all are
  /// copied to host memory in one pass. Call after `writer.finish`.
  [[nodiscard]] Ref frames(Layout const& layout, bool keep_on_device);

 private:
  using Put = std::function<void(std::size_t frame, Ref object)>;
  void host_frames(Layout const& layout, Put const& put);
  void device_frames(Layout const& layout, bool keep_on_device, Put const& put);

  HeaderWriter& writer_;
  std::vector<std::shared_ptr<Keeper>> keepers_;
};

/// A payload as a decoder needs it: bytes inside an object that exports a buffer.
struct Payload {
  PyObject* exporter = nullptr;  ///< borrowed from Incoming; null for an empty payload
  std::byte const* data = nullptr;
  std::uint64_t offset = 0;  ///< of `data` in the exporter's buffer
  std::uint64_t nbytes = 0;
  bool readonly = false;
};

/// The frames of a received message. Borrows the sequence's objects for its own life; exporters hand out references.
class Incoming {
 public:
  /// Checks checksums where the header has them, and decompresses the frames that it names a codec for, `most_nbytes` of them
  /// together (nothing: the memory of this machine). Other threads run meanwhile.
  ///
  /// @throws what `unpack_frames` throws.
  Incoming(Header const& header, PyObject* frames, std::optional<std::uint64_t> most_nbytes);

  /// Payload `p`: in place where one frame holds it, joined where it was split; copied once when `writable` is asked of a
  /// read-only frame, or when it lies off `align` (a power of two). A copy of the pack serves all its payloads.
  [[nodiscard]] Payload payload(std::uint64_t p, bool writable, std::size_t align);

  /// Payload `p`, of a GPU's memory, owned by the DeviceMemory of its whole frame. What came in host memory is brought to `device`, all such frames by one pass; what lies on a device
  /// stays there, and one that is split over frames is joined there. `host_twin`: all is in host memory, what lies on a device in a copy.
  ///
  /// @param device needed where the payload came in host memory.
  /// @throws Error{unsupported} for a payload whose frames lie on several devices, unless it goes to host memory.
  [[nodiscard]] DeviceMemory device_payload(std::uint64_t p, std::optional<int> device);
  /// Whether payload `p`, of a GPU's memory, came in host memory, all of it.
  [[nodiscard]] bool came_in_host_memory(std::uint64_t p) const;

  [[nodiscard]] std::uint64_t copies() const noexcept { return copies_; }

 private:
  struct Frame {
    Ref exporter;
    BufferView view;
    std::byte const* data = nullptr;
    std::uint64_t nbytes = 0;
    bool readonly = false;
    bool held = false;  ///< the exporter keeps its memory where it is
    Ref device;         ///< DeviceMemory: the frame is in a GPU's memory, or was brought there
  };

  static void hold(Frame& frame);
  static void replace(Frame& frame, Buffer whole);
  void own(Frame& frame);
  std::size_t join(Place const& place);
  void bring_to(int device);
  void gather(bool to_host);
  [[nodiscard]] static Ref adjacent_on_device(std::span<Frame const> pieces);

  Header const& header_;
  std::vector<Frame> frames_;
  std::vector<std::uint32_t> joined_;  ///< index of a split payload's joined frame by its first frame; 0: not joined yet
  std::uint64_t copies_ = 0;
  bool brought_ = false;   ///< device payloads that came in host memory are where they are wanted
  bool gathered_ = false;  ///< likewise those that lie on a device, each in one piece
};

/// A 1-D memoryview of bytes that `keeper` holds.
[[nodiscard]] Ref make_view(std::shared_ptr<Keeper> keeper, std::byte const* data, std::size_t nbytes, bool readonly);
/// A memoryview of `shape` and struct-module `format` over memory that `keeper` holds, in C order.
[[nodiscard]] Ref make_view(std::shared_ptr<Keeper> keeper, std::byte const* data, std::string format, std::size_t itemsize,
                            std::vector<Py_ssize_t> shape, bool readonly);

/// The `bytes` object that `frame`, which shows `shown`, is all of; borrowed from it. Null where it is none.
[[nodiscard]] PyObject* whole_bytes(PyObject* frame, std::span<std::byte const> shown);

/// Releases buffers that threads without the GIL are done with. Called where the GIL is held and something may have been freed.
void let_go_of_returned();

/// Makes the internal exporter type; once a process.
void init_frames();

/// A message over the memory of Python's buffers (`frames` is a tuple), which `views` holds from here on: of the frames, in order, and of the header.
[[nodiscard]] Message borrowed_message(PyObject* header, PyObject* frames, std::vector<BufferView>& views);

}  // namespace transload::py
