#include "frames.hpp"

#include <algorithm>
#include <cstring>
#include <map>
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

Ref Outgoing::frames(Layout const& layout, bool keep_on_device) {
  Ref list = take(PyList_New(static_cast<Py_ssize_t>(layout.frame_nbytes.size())));
  std::vector<PyObject*> made(layout.frame_nbytes.size(), nullptr);
  auto const put = [&](std::size_t frame, Ref view) {
    made[frame] = view.get();
    check(PyList_SetItem(list.get(), static_cast<Py_ssize_t>(frame), view.release()));
  };
  host_frames(layout, put);
  if (layout.device_frames < layout.frame_nbytes.size()) device_frames(layout, keep_on_device, put);
  for (std::size_t f = 0; f < made.size(); ++f) {
    expects(made[f] != nullptr, ErrorKind::failed, [&] { return cat("frame ", f, " was not made"); });
  }
  return list;
}

void Outgoing::host_frames(Layout const& layout, Put const& put) {
  auto const payloads = writer_.payloads();
  auto const sizes = writer_.sizes();
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
    if (place.nframes == 0 || (layout.has_pack && place.frame == 0) || sizes[p].window_of >= 0 || sizes[p].device) continue;
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
}

namespace {

/// Copies between one device and wherever else, collected for one pass.
struct DeviceCopies {
  std::vector<Copy> copies;
  std::vector<StreamHandle> streams;

  /// The copies wait for what `stream` was given so far.
  void wait_for(StreamHandle stream) {
    if (stream != 0 && std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
  }
};

}  // namespace

void Outgoing::device_frames(Layout const& layout, bool keep_on_device, Put const& put) {
  auto const payloads = writer_.payloads();
  auto const sizes = writer_.sizes();
  std::size_t const nframes = layout.frame_nbytes.size();
  std::size_t const packs_end = layout.device_frames + layout.ndevice_packs;

  // Whose memory each payload is. One that is made of the union of several needs all of them.
  std::vector<std::vector<Keeper const*>> keepers(payloads.size());
  for (std::size_t p = 0; p < keepers_.size(); ++p) {
    if (!sizes[p].device) continue;
    keepers[p].push_back(keepers_[p].get());
    if (sizes[p].window_of >= 0) keepers[static_cast<std::size_t>(sizes[p].window_of)].push_back(keepers_[p].get());
  }
  std::map<int, DeviceCopies> by_device;
  for (std::size_t p = 0; p < payloads.size(); ++p) {
    if (sizes[p].device && sizes[p].window_of < 0 && !payloads[p].empty()) (void)by_device[*keepers[p].front()->device];
  }
  keep_on_device = keep_on_device && by_device.size() == 1;  // a pack lies on one device

  struct Target {
    std::byte* host = nullptr;
    std::uintptr_t device = 0;
    std::uint64_t packed = 0;  ///< bytes of a pack that have a payload or are a gap before one
  };
  std::vector<Target> targets(nframes - layout.device_frames);
  auto const target = [&](std::size_t frame) -> Target& { return targets[frame - layout.device_frames]; };
  for (std::size_t f = layout.device_frames; f < (keep_on_device ? packs_end : nframes); ++f) {
    std::uint64_t const nbytes = layout.frame_nbytes[f];
    if (keep_on_device) {
      DeviceMemory memory = allocate_on_device(nbytes, by_device.begin()->first);
      target(f).device = memory.pointer;
      by_device.begin()->second.wait_for(std::exchange(memory.stream, 0));
      put(f, to_python(std::move(memory)));
    } else {
      std::byte* data = nullptr;
      auto keeper = std::make_shared<Keeper>(Keeper::allocate(nbytes, data));
      target(f).host = data;
      put(f, make_exporter(std::move(keeper), data, nbytes, false));
    }
  }
  for (std::size_t p = 0; p < payloads.size(); ++p) {
    Place const& place = layout.places[p];
    if (!sizes[p].device || sizes[p].window_of >= 0 || place.nframes == 0) continue;
    DeviceCopies& moving = by_device[*keepers[p].front()->device];
    for (Keeper const* keeper : keepers[p]) moving.wait_for(keeper->stream);
    std::uint64_t at = 0;
    for (std::uint32_t f = place.frame; f < place.frame + place.nframes; ++f) {
      std::uint64_t const nbytes = place.nframes == 1 ? place.nbytes : layout.frame_nbytes[f];
      std::byte const* const from = payloads[p].data() + at;
      at += nbytes;
      if (keep_on_device && f >= packs_end) {
        Ref owners = take(PyTuple_New(static_cast<Py_ssize_t>(keepers[p].size())));
        bool readonly = true;
        for (std::size_t k = 0; k < keepers[p].size(); ++k) {
          readonly = readonly && keepers[p][k]->readonly;
          check(PyTuple_SetItem(owners.get(), static_cast<Py_ssize_t>(k), Ref::borrow(keepers[p][k]->object.get()).release()));
        }
        put(f, to_python({.pointer = reinterpret_cast<std::uintptr_t>(from), .nbytes = nbytes, .device = *keepers[p].front()->device, .stream = keepers[p].front()->stream, .readonly = readonly, .owner = std::move(owners)}));
        continue;
      }
      Target& into = target(f);
      if (into.host != nullptr && f < packs_end) {  // the gaps are zero
        std::memset(into.host + into.packed, 0, place.offset - into.packed);
        into.packed = place.offset + nbytes;
      }
      void* const to = keep_on_device ? reinterpret_cast<void*>(into.device + place.offset) : into.host + (place.nframes == 1 ? place.offset : 0);
      moving.copies.push_back({.to = to, .from = from, .nbytes = nbytes});
    }
  }
  Released const released;  // the keepers hold the memory
  for (auto const& [device, moving] : by_device) {
    if (moving.copies.empty()) continue;
    if (keep_on_device) {
      copy_on_device(moving.copies, device, moving.streams);
    } else {
      copy_to_host(moving.copies, device, moving.streams);
    }
  }
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
    bool const host = PyMemoryView_Check(object) != 0 || PyBytes_Check(object) != 0 || PyByteArray_Check(object) != 0;
    if (!host && i >= header_.layout.device_frames) {
      if ((frame.device = exported_device_memory(object))) {
        frame.nbytes = sizes[i] = as_device_memory(frame.device.get())->nbytes;
        continue;
      }
    }
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
  for (std::size_t i = 0; i < n; ++i) {
    expects(!frames_[i].device, ErrorKind::unsupported, [&] { return cat("frame ", i, ": a GPU's memory, where compressed frames or such with checksums have to lie in host memory"); });
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
  expects(!header_.sizes[p].device, ErrorKind::malformed, [&] { return cat("payload ", p, " is a GPU's memory, where host memory is needed"); });
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

bool Incoming::came_in_host_memory(std::uint64_t p) const {
  Place const& place = header_.layout.places.at(p);
  return std::none_of(frames_.begin() + place.frame, frames_.begin() + place.frame + place.nframes, [](Frame const& piece) { return static_cast<bool>(piece.device); });
}

DeviceMemory Incoming::device_payload(std::uint64_t p, std::optional<int> device) {
  expects(p < header_.layout.places.size(), ErrorKind::malformed,
          [&] { return cat("payload ", p, " of ", header_.layout.places.size()); });
  Place const& place = header_.layout.places[p];
  expects(header_.sizes[p].device, ErrorKind::malformed, [&] { return cat("payload ", p, " is host memory, where a GPU's is needed"); });
  if (place.nframes == 0) return {.pointer = 0, .nbytes = 0, .device = device.value_or(host_twin), .stream = 0, .readonly = false, .owner = Ref::borrow(Py_None)};
  if (!gathered_) gather(device == host_twin);
  if (!brought_ && came_in_host_memory(p)) bring_to(device.value());
  Frame const& frame = frames_[place.nframes == 1 ? place.frame : joined_[place.frame]];
  DeviceMemory const& whole = *as_device_memory(frame.device.get());
  return {.pointer = whole.pointer + place.offset, .nbytes = place.nbytes, .device = whole.device, .stream = whole.stream, .readonly = whole.readonly, .owner = Ref::borrow(frame.device.get())};
}

/// Makes one piece of memory of every payload that lies, wholly or in part, on a device: there, or in host memory (`to_host`).
void Incoming::gather(bool to_host) {
  gathered_ = true;
  std::map<int, DeviceCopies> down, across, up;
  std::vector<Ref> sources;  // until they were copied
  for (std::size_t p = 0; p < header_.sizes.size(); ++p) {
    Place const& place = header_.layout.places[p];
    if (!header_.sizes[p].device || came_in_host_memory(p) || (place.nframes > 1 && joined_[place.frame] != 0)) continue;
    std::span const pieces(&frames_[place.frame], place.nframes);
    auto const memory_of = [](Frame const& piece) { return piece.device ? as_device_memory(piece.device.get()) : nullptr; };
    int const home = memory_of(*std::find_if(pieces.begin(), pieces.end(), memory_of))->device;
    if (place.nframes == 1 && (!to_host || home == host_twin)) continue;
    std::uint64_t total = 0;
    for (Frame const& piece : pieces) total += piece.nbytes;

    Frame whole;
    whole.nbytes = total;
    whole.held = true;
    if (!to_host) whole.device = adjacent_on_device(pieces);
    if (!whole.device) {
      DeviceMemory memory;
      if (to_host) {
        std::byte* data = nullptr;
        auto keeper = std::make_shared<Keeper>(Keeper::allocate(total, data));
        whole.exporter = make_exporter(std::move(keeper), data, total, false);
        whole.data = data;
        memory = {.pointer = reinterpret_cast<std::uintptr_t>(data), .nbytes = total, .device = host_twin, .stream = 0, .readonly = false, .owner = Ref::borrow(whole.exporter.get())};
      } else {
        memory = allocate_on_device(total, home);
        across[home].wait_for(memory.stream);
        up[home].wait_for(std::exchange(memory.stream, 0));
      }
      auto* to = static_cast<std::byte*>(memory.data());
      for (std::size_t f = 0; f < pieces.size(); to += pieces[f].nbytes, ++f) {
        DeviceMemory const* const from = memory_of(pieces[f]);
        if (from == nullptr && to_host) {
          if (pieces[f].nbytes != 0) std::memcpy(to, pieces[f].data, pieces[f].nbytes);
          continue;
        }
        expects(to_host || from == nullptr || from->device == home, ErrorKind::unsupported,
                [&] { return cat("frame ", place.frame + f, ": memory of device ", from->device, ", and other frames of the same payload are on device ", home); });
        DeviceCopies& moving = from == nullptr ? up[home] : to_host ? down[from->device] : across[home];
        if (from != nullptr) moving.wait_for(from->stream);
        moving.copies.push_back({.to = to, .from = from == nullptr ? pieces[f].data : static_cast<std::byte const*>(from->data()), .nbytes = pieces[f].nbytes});
        sources.push_back(Ref::borrow(pieces[f].device.get()));
      }
      whole.device = to_python(std::move(memory));
      ++copies_;
    }
    if (place.nframes == 1) {
      frames_[place.frame] = std::move(whole);
    } else {
      frames_.push_back(std::move(whole));
      joined_[place.frame] = static_cast<std::uint32_t>(frames_.size() - 1);
    }
  }
  Released const released;  // the frames hold their memory
  for (auto const& [device, moving] : down) copy_to_host(moving.copies, device, moving.streams);
  for (auto const& [device, moving] : across) {
    if (!moving.copies.empty()) copy_on_device(moving.copies, device, moving.streams);
  }
  for (auto const& [device, moving] : up) {
    if (!moving.copies.empty()) copy_to_device(moving.copies, device, moving.streams);
  }
}

/// Pieces that lie one behind the other in a device's memory, all written by one stream, as one; null where they do not.
Ref Incoming::adjacent_on_device(std::span<Frame const> pieces) {
  DeviceMemory const* const first = pieces.front().device ? as_device_memory(pieces.front().device.get()) : nullptr;
  if (first == nullptr) return {};
  std::uint64_t total = 0;
  bool readonly = false;
  Ref owners = take(PyTuple_New(static_cast<Py_ssize_t>(pieces.size())));
  for (std::size_t f = 0; f < pieces.size(); ++f) {
    DeviceMemory const* const piece = pieces[f].device ? as_device_memory(pieces[f].device.get()) : nullptr;
    if (piece == nullptr || piece->device != first->device || piece->stream != first->stream || piece->pointer != first->pointer + total) return {};
    readonly = readonly || piece->readonly;
    total += piece->nbytes;
    check(PyTuple_SetItem(owners.get(), static_cast<Py_ssize_t>(f), Ref::borrow(pieces[f].device.get()).release()));
  }
  return to_python({.pointer = first->pointer, .nbytes = total, .device = first->device, .stream = first->stream, .readonly = readonly, .owner = std::move(owners)});
}

/// Brings all device frames that lie in host memory to `device`, or lends them as they are to its host twin.
void Incoming::bring_to(int device) {
  brought_ = true;
  DeviceCopies moving;
  for (std::size_t p = 0; p < header_.sizes.size(); ++p) {
    Place const& place = header_.layout.places[p];
    if (!header_.sizes[p].device || place.nframes == 0 || !came_in_host_memory(p)) continue;
    Frame& frame = frames_[place.nframes == 1 ? place.frame : join(place)];
    if (frame.device) continue;
    if (device == host_twin) {
      if (frame.readonly || reinterpret_cast<std::uintptr_t>(frame.data) % Resource::alignment != 0) own(frame);
      hold(frame);
      frame.device = to_python({.pointer = reinterpret_cast<std::uintptr_t>(frame.data), .nbytes = frame.nbytes, .device = host_twin, .stream = 0, .readonly = false, .owner = Ref::borrow(frame.exporter.get())});
      continue;
    }
    DeviceMemory memory = allocate_on_device(frame.nbytes, device);
    moving.wait_for(std::exchange(memory.stream, 0));
    moving.copies.push_back({.to = memory.data(), .from = frame.data, .nbytes = frame.nbytes});
    frame.device = to_python(std::move(memory));
  }
  Released const released;  // the frames hold their memory
  if (!moving.copies.empty()) copy_to_device(moving.copies, device, moving.streams);
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
