#include "frames.hpp"

#include <cstring>
#include <utility>

#include "process.hpp"
#include "transload/base/error.hpp"

namespace transload::py {

namespace {

/// What a view shows, beside its bytes.
struct Shown {
  std::shared_ptr<Keeper> keeper;
  std::string format;
  Py_ssize_t itemsize = 1;
  std::vector<Py_ssize_t> shape;
  std::vector<Py_ssize_t> strides;
};

/// Exports bytes that a Keeper holds: the object behind the memoryviews that users see as frames.
struct Exporter {
  PyObject_HEAD
  Shown* shown;
  void* data;
  Py_ssize_t nbytes;
  int readonly;
};

PyTypeObject* exporter_type = nullptr;

int exporter_getbuffer(PyObject* self, Py_buffer* view, int flags) {
  auto* const exporter = reinterpret_cast<Exporter*>(self);
  if (PyBuffer_FillInfo(view, self, exporter->data, exporter->nbytes, exporter->readonly, flags) < 0) return -1;
  Shown& shown = *exporter->shown;
  if (shown.format.empty()) return 0;
  view->itemsize = shown.itemsize;
  view->format = (flags & PyBUF_FORMAT) == PyBUF_FORMAT ? shown.format.data() : nullptr;
  if ((flags & PyBUF_ND) == PyBUF_ND) {
    view->ndim = static_cast<int>(shown.shape.size());
    view->shape = shown.shape.data();
  }
  if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES) view->strides = shown.strides.data();
  return 0;
}

void exporter_dealloc(PyObject* self) {
  auto* const exporter = reinterpret_cast<Exporter*>(self);
  delete exporter->shown;
  let_go_of_returned();  // a frame by reference from another end in this process
  PyTypeObject* const type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

Ref make_exporter(Shown shown, std::byte const* data, std::size_t nbytes, bool readonly) {
  auto const alloc = reinterpret_cast<allocfunc>(PyType_GetSlot(exporter_type, Py_tp_alloc));
  Ref self = take(alloc(exporter_type, 0));
  auto* const exporter = reinterpret_cast<Exporter*>(self.get());
  exporter->shown = new Shown(std::move(shown));
  exporter->data = const_cast<std::byte*>(data);
  exporter->nbytes = static_cast<Py_ssize_t>(nbytes);
  exporter->readonly = readonly ? 1 : 0;
  return take(PyMemoryView_FromObject(self.get()));
}

Ref make_exporter(std::shared_ptr<Keeper> keeper, std::byte const* data, std::size_t nbytes, bool readonly) {
  return make_exporter(Shown{.keeper = std::move(keeper), .format = {}, .itemsize = 1, .shape = {}, .strides = {}}, data, nbytes, readonly);
}

}  // namespace

Keeper Keeper::allocate(std::size_t nbytes, std::byte*& data) {
  Keeper keeper;
  keeper.block = Buffer::allocate(nbytes, default_resource());
  keeper.readonly = false;
  data = keeper.block.writable().data();
  return keeper;
}

Ref make_view(std::shared_ptr<Keeper> keeper, std::byte const* data, std::size_t nbytes, bool readonly) {
  return make_exporter(std::move(keeper), data, nbytes, readonly);
}

Ref make_view(std::shared_ptr<Keeper> keeper, std::byte const* data, std::string format, std::size_t itemsize,
              std::vector<Py_ssize_t> shape, bool readonly) {
  static std::byte const nothing[1] = {};
  Shown shown{.keeper = std::move(keeper), .format = std::move(format), .itemsize = static_cast<Py_ssize_t>(itemsize), .shape = std::move(shape), .strides = {}};
  shown.strides.resize(shown.shape.size());
  Py_ssize_t step = shown.itemsize;
  for (std::size_t i = shown.shape.size(); i-- > 0; step *= shown.shape[i]) shown.strides[i] = step;
  return make_exporter(std::move(shown), data != nullptr ? data : nothing, static_cast<std::size_t>(step), readonly);
}

PyObject* whole_bytes(PyObject* frame, std::span<std::byte const> shown) {
  PyObject* object = frame;
  if (PyMemoryView_Check(frame) != 0) {
    Ref const base = attr(frame, "obj");
    object = base.get();
    if (Py_TYPE(object) == exporter_type) {
      Keeper const& keeper = *reinterpret_cast<Exporter*>(object)->shown->keeper;
      object = keeper.object.get();
    }
  }
  if (object == nullptr || PyBytes_CheckExact(object) == 0) return nullptr;
  bool const all = reinterpret_cast<std::byte*>(PyBytes_AsString(object)) == shown.data() && static_cast<std::size_t>(PyBytes_Size(object)) == shown.size();
  return all ? object : nullptr;
}

void init_frames() {
  if (exporter_type != nullptr) return;
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(exporter_dealloc)},
                                {Py_bf_getbuffer, reinterpret_cast<void*>(exporter_getbuffer)},
                                {Py_tp_doc, const_cast<char*>("Bytes of a message, exported as a buffer.")},
                                {0, nullptr}};
  static PyType_Spec spec{.name = "transload._core._Exporter",
                          .basicsize = sizeof(Exporter),
                          .itemsize = 0,
                          .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          .slots = slots};
  exporter_type = reinterpret_cast<PyTypeObject*>(take(PyType_FromSpec(&spec)).release());
}

Ref Outgoing::frames(Layout const& layout) {
  auto const payloads = writer_.payloads();
  auto const sizes = writer_.sizes();
  Ref list = take(PyList_New(static_cast<Py_ssize_t>(layout.frame_nbytes.size())));
  std::vector<PyObject*> made(layout.frame_nbytes.size(), nullptr);
  auto const put = [&](std::size_t frame, Ref view) {
    made[frame] = view.get();
    check(PyList_SetItem(list.get(), static_cast<Py_ssize_t>(frame), view.release()));
  };

  if (layout.has_pack) {
    std::byte* pack = nullptr;
    auto keeper = std::make_shared<Keeper>(Keeper::allocate(layout.frame_nbytes[0], pack));
    std::uint64_t end = 0;
    for (std::size_t p = 0; p < payloads.size(); ++p) {
      Place const& place = layout.places[p];
      if (place.nframes == 0 || place.frame != 0 || sizes[p].window_of >= 0) continue;
      std::memset(pack + end, 0, place.offset - end);
      std::memcpy(pack + place.offset, payloads[p].data(), place.nbytes);
      end = place.offset + place.nbytes;
    }
    put(0, make_exporter(std::move(keeper), pack, layout.frame_nbytes[0], false));
  }

  std::vector<std::uint32_t> nusers(layout.frame_nbytes.size());
  for (Place const& place : layout.places) {
    if (place.nframes != 0) ++nusers[place.frame];
  }
  for (std::size_t p = 0; p < payloads.size(); ++p) {
    Place const& place = layout.places[p];
    if (place.nframes == 0 || (layout.has_pack && place.frame == 0) || sizes[p].window_of >= 0) continue;
    auto keeper = p < keepers_.size() ? keepers_[p] : std::make_shared<Keeper>();
    bool readonly = keeper->readonly;
    for (std::size_t q = 0; q < keepers_.size() && nusers[place.frame] > 1; ++q) {
      Place const& other = layout.places[q];
      if (q == p || other.nframes == 0 || other.frame != place.frame) continue;
      // Payloads that share memory: the frame is writable if one of them is, and a payload made of their union needs them all alive.
      readonly = readonly && keepers_[q]->readonly;
      if (p >= keepers_.size()) keeper->others.push_back(keepers_[q]);
    }
    std::uint64_t offset = 0;
    for (std::uint32_t f = 0; f < place.nframes; ++f) {
      std::uint64_t const nbytes = layout.frame_nbytes[place.frame + f];
      put(place.frame + f, make_exporter(keeper, payloads[p].data() + offset, nbytes, readonly));
      offset += nbytes;
    }
  }
  for (std::size_t f = 0; f < made.size(); ++f) {
    expects(made[f] != nullptr, ErrorKind::failed, [&] { return cat("frame ", f, " was not made"); });
  }
  return list;
}

Incoming::Incoming(Header const& header, PyObject* frames, std::optional<std::uint64_t> most_nbytes) : header_(header) {
  Ref const sequence = take(PySequence_Tuple(frames));
  auto const n = static_cast<std::size_t>(PyTuple_Size(sequence.get()));
  std::vector<std::uint64_t> sizes(n);
  frames_.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    Frame& frame = frames_[i];
    frame.exporter = Ref::borrow(PyTuple_GetItem(sequence.get(), static_cast<Py_ssize_t>(i)));
    PyObject* const object = frame.exporter.get();
    if (!PyObject_CheckBuffer(object)) {
      throw Error(ErrorKind::malformed, cat("frame ", i, ": a ", type_name(object), " is no buffer of host memory"));
    }
    frame.view = BufferView(object, PyBUF_STRIDED_RO);
    if (PyBuffer_IsContiguous(frame.view.operator->(), 'C') == 0) {
      throw Error(ErrorKind::malformed, cat("frame ", i, ": the buffer is not contiguous"));
    }
    frame.data = static_cast<std::byte const*>(frame.view->buf);
    frame.nbytes = static_cast<std::uint64_t>(frame.view->len);
    frame.readonly = frame.view->readonly != 0;
    sizes[i] = frame.nbytes;
    if (frame.view->ndim != 1 || frame.view->itemsize != 1) {  // shaped buffers are seen as bytes from here on
      Ref const flat = take(PyMemoryView_FromObject(object));
      frame.exporter = call_method(flat.get(), "cast", str("B").get());
    }
  }
  joined_.resize(n, 0);
  if (header_.frame_xxh3.empty() && header_.frame_codec.empty()) {
    header_.check_frames(sizes);
    return;
  }
  std::vector<std::span<std::byte const>> stored;
  stored.reserve(n);
  for (Frame const& frame : frames_) stored.emplace_back(frame.data, frame.nbytes);
  std::vector<Buffer> unpacked;
  {
    Released const released;  // the views hold the bytes
    unpacked = unpack_frames(header_, stored, default_resource(), {.most_nbytes = most_nbytes});
  }
  for (std::size_t i = 0; i < header_.frame_codec.size(); ++i) {
    if (!header_.frame_codec[i].empty()) replace(frames_[i], std::move(unpacked[i]));
  }
}

void Incoming::replace(Frame& frame, Buffer whole) {
  auto keeper = std::make_shared<Keeper>();
  frame.data = whole.data();
  frame.nbytes = whole.nbytes();
  frame.readonly = false;
  keeper->block = std::move(whole);
  keeper->readonly = false;
  frame.exporter = make_exporter(std::move(keeper), frame.data, frame.nbytes, false);
  frame.held = true;
  frame.view.release();
}

/// NumPy keeps the object that it took a buffer from, and not the buffer: a bytearray could be resized and a mapping closed under an array.
void Incoming::hold(Frame& frame) {
  if (frame.held || PyBytes_CheckExact(frame.exporter.get()) != 0) return;
  auto keeper = std::make_shared<Keeper>();
  keeper->object = std::move(frame.exporter);
  keeper->view = std::move(frame.view);
  keeper->readonly = frame.readonly;
  frame.exporter = make_exporter(std::move(keeper), frame.data, frame.nbytes, frame.readonly);
  frame.held = true;
}

void Incoming::own(Frame& frame) {
  std::byte* data = nullptr;
  auto keeper = std::make_shared<Keeper>(Keeper::allocate(frame.nbytes, data));
  if (frame.nbytes != 0) std::memcpy(data, frame.data, frame.nbytes);
  frame.exporter = make_exporter(std::move(keeper), data, frame.nbytes, false);
  frame.held = true;
  frame.view.release();
  frame.data = data;
  frame.readonly = false;
  ++copies_;
}

std::size_t Incoming::join(Place const& place) {
  if (joined_[place.frame] != 0) return joined_[place.frame];
  std::uint64_t total = 0;
  bool adjacent = true;
  bool readonly = false;
  for (std::uint32_t f = 0; f < place.nframes; ++f) {
    Frame const& piece = frames_[place.frame + f];
    adjacent = adjacent && piece.data == frames_[place.frame].data + total;
    readonly = readonly || piece.readonly;
    total += piece.nbytes;
  }
  Frame whole;
  whole.nbytes = total;
  whole.held = true;
  if (adjacent) {
    auto keeper = std::make_shared<Keeper>();
    Ref pieces = take(PyTuple_New(place.nframes));
    for (std::uint32_t f = 0; f < place.nframes; ++f) {
      PyObject* const piece = take(PyMemoryView_FromObject(frames_[place.frame + f].exporter.get())).release();
      check(PyTuple_SetItem(pieces.get(), f, piece));
    }
    keeper->object = std::move(pieces);
    whole.data = frames_[place.frame].data;
    whole.readonly = readonly;
    whole.exporter = make_exporter(std::move(keeper), whole.data, total, readonly);
  } else {
    std::byte* data = nullptr;
    auto keeper = std::make_shared<Keeper>(Keeper::allocate(total, data));
    std::uint64_t at = 0;
    for (std::uint32_t f = 0; f < place.nframes; ++f) {
      Frame const& piece = frames_[place.frame + f];
      std::memcpy(data + at, piece.data, piece.nbytes);
      at += piece.nbytes;
    }
    whole.data = data;
    whole.exporter = make_exporter(std::move(keeper), data, total, false);
    ++copies_;
  }
  frames_.push_back(std::move(whole));
  return joined_[place.frame] = static_cast<std::uint32_t>(frames_.size() - 1);
}

Payload Incoming::payload(std::uint64_t p, bool writable, std::size_t align) {
  expects(p < header_.layout.places.size(), ErrorKind::malformed,
          [&] { return cat("payload ", p, " of ", header_.layout.places.size()); });
  Place const& place = header_.layout.places[p];
  if (place.nframes == 0) return {};
  Frame& frame = frames_[place.nframes == 1 ? place.frame : join(place)];
  // The layout aligns payloads inside a frame; only the frame's own start can be off (Dask's tcp puts the first buffer behind its headers).
  bool const misaligned = (reinterpret_cast<std::uintptr_t>(frame.data) & (align - 1)) != 0;
  if ((writable && frame.readonly) || misaligned) own(frame);
  hold(frame);
  return {.exporter = frame.exporter.get(),
          .data = frame.data + place.offset,
          .offset = place.offset,
          .nbytes = place.nbytes,
          .readonly = frame.readonly};
}

Message borrowed_message(PyObject* header, PyObject* frames, std::vector<BufferView>& views) {
  Message message;
  for (Py_ssize_t i = 0; i < PyTuple_Size(frames); ++i) {
    views.emplace_back(PyTuple_GetItem(frames, i), PyBUF_SIMPLE);
    message.frames.push_back(Buffer::borrow(views.back().bytes()));
  }
  views.emplace_back(header, PyBUF_SIMPLE);
  message.header = Buffer::borrow(views.back().bytes());
  return message;
}

}  // namespace transload::py
