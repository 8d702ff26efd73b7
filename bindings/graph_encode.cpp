#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <pthread.h>
#include <unordered_map>
#include <vector>

#include "arrow.hpp"
#include "device.hpp"
#include "frames.hpp"
#include "globals.hpp"
#include "graph.hpp"
#include "numpy.hpp"
#include "process.hpp"
#include "transload/base/error.hpp"
#include "transload/base/limits.hpp"
#include "transload/message/header.hpp"
#include "transload/message/op.hpp"

namespace transload::py {

namespace {

/// bytes and byte-like values up to this size stay in the header; copying them twice costs less than a payload.
constexpr Py_ssize_t inline_nbytes = 1024;
/// Lists of floats from this length on become one payload.
constexpr Py_ssize_t floats_min = 16;
/// Arrays of objects inside one another, so that a reader takes them, and what lies in the innermost.
constexpr std::size_t most_object_arrays = limits::depth / limits::object_array_levels - 1;
/// Ints up to this many words of 64 bits are taken apart here; a call of `to_bytes` costs as much as ten of them.
constexpr std::size_t big_words = 16;
/// Dicts and objects with more keys than this are written key by key.
constexpr std::size_t shape_keys = 128;
/// Shapes that one class may have before its objects are written key by key.
constexpr std::size_t shapes_of_class = 64;

/// Where the walk is: one link a level, on the stack, put into words only when somebody asks.
struct Step {
  enum class Kind : std::uint8_t { root, index, key, key_itself, attribute, part };
  Step const* parent = nullptr;
  Kind kind = Kind::root;
  Py_ssize_t index = 0;
  PyObject* key = nullptr;
  char const* part = nullptr;
};

std::string in_words(Step const& step) {
  auto const repr = [](PyObject* key) {
    Ref const text(key == nullptr ? nullptr : PyObject_Repr(key));
    Ref const bytes(text ? PyUnicode_AsEncodedString(text.get(), "utf-8", "replace") : nullptr);
    if (!bytes) {
      PyErr_Clear();
      return std::string("?");
    }
    std::string full(PyBytes_AsString(bytes.get()), static_cast<std::size_t>(PyBytes_Size(bytes.get())));
    if (full.size() > 80) full = full.substr(0, 77) + "...";
    return full;
  };
  switch (step.kind) {
    case Step::Kind::root: break;
    case Step::Kind::index: return cat("[", step.index, "]");
    case Step::Kind::key: return cat("[", repr(step.key), "]");
    case Step::Kind::key_itself: return cat(".keys()[", step.index, "]");
    case Step::Kind::attribute: {
      std::string const name = repr(step.key);
      return cat(".", name.size() > 2 ? name.substr(1, name.size() - 2) : name);
    }
    case Step::Kind::part: return cat(".", step.part);
  }
  return {};
}

/// The place in the object; of a very deep one the outermost and innermost levels. Not recursive: it is asked where the stack is nearly full.
std::string path(Step const* step) {
  constexpr std::size_t outer = 40;
  constexpr std::size_t inner = 20;
  std::vector<Step const*> steps;
  for (; step->parent != nullptr; step = step->parent) steps.push_back(step);
  std::string out = "obj";
  for (std::size_t i = steps.size(); i-- > 0;) {
    if (steps.size() > outer + inner && i == steps.size() - outer - 1) {
      out += "…";
      i = inner;
      continue;
    }
    out += in_words(*steps[i]);
  }
  return out;
}

/// Object → number, open addressing: the walk's hottest table. Holds a reference to each object, so that the address of
/// one that died in mid-walk is never taken for another.
class Memo {
 public:
  Memo() = default;
  Memo(Memo const&) = delete;
  Memo& operator=(Memo const&) = delete;
  ~Memo() {
    for (Entry const& entry : entries_) Py_XDECREF(entry.object);
  }

  [[nodiscard]] std::uint32_t const* find(PyObject* object) const noexcept {
    if (entries_.empty()) return nullptr;
    for (std::size_t i = slot(object);; i = (i + 1) & (entries_.size() - 1)) {
      if (entries_[i].object == object) return &entries_[i].number;
      if (entries_[i].object == nullptr) return nullptr;
    }
  }

  void insert(PyObject* object, std::uint32_t number) {
    if ((size_ + 1) * 2 > entries_.size()) grow();
    Py_INCREF(object);
    put({object, number});
    ++size_;
  }

 private:
  struct Entry {
    PyObject* object = nullptr;
    std::uint32_t number = 0;
  };

  [[nodiscard]] std::size_t slot(PyObject* object) const noexcept {
    auto const address = reinterpret_cast<std::uintptr_t>(object) >> 4;
    return (address * 0x9e3779b97f4a7c15ULL >> 20) & (entries_.size() - 1);
  }
  void put(Entry entry) noexcept {
    std::size_t i = slot(entry.object);
    while (entries_[i].object != nullptr) i = (i + 1) & (entries_.size() - 1);
    entries_[i] = entry;
  }
  void grow() {
    std::vector<Entry> old = std::move(entries_);
    entries_.assign(old.empty() ? 64 : old.size() * 2, Entry{});
    for (Entry const& entry : old) {
      if (entry.object != nullptr) put(entry);
    }
  }

  std::vector<Entry> entries_;
  std::size_t size_ = 0;
};

/// How objects of a class are written; found once a class and message.
enum class Kind : std::uint8_t {
  set, frozenset, bytearray, complex, slice, range, memoryview, pickle_buffer, name, ndarray, scalar, dtype, adapted,
  arrow, device, plain, reduce
};

/// A set of keys under which values were written, by identity of the key objects.
struct Shape {
  std::vector<PyObject*> keys;  ///< kept alive by the owner
  std::uint32_t number = 0;
};

struct ClassInfo {
  Kind kind = Kind::reduce;
  Ref cls;
  Ref hook;                  ///< adapted: encode; reduce: the dispatch table's function, or null
  Ref wire_name;             ///< adapted: str; arrow: the kind
  Ref stream_of_message;     ///< adapted, of a GPU's arrays that are read here: callable, the stream whose work so far writes them
  std::optional<StreamHandle> stream;  ///< what it said for this message
  std::int64_t wire_index = -1;
  std::int64_t name = -1;    ///< index into names once the class itself was named
  bool has_dict = false;
  Ref slots;                 ///< plain: list of slot names
  std::vector<Shape> shapes;
};

class Encoder {
 public:
  explicit Encoder(EncodeOptions const& options) : options_(options), out_(writer_.root()), outgoing_(writer_) {
    writer_.add_family("host");
  }
  Encoder(Encoder const&) = delete;
  Encoder& operator=(Encoder const&) = delete;
  ~Encoder() {
    for (PyObject* object : kept_) Py_DECREF(object);
  }

  Encoded run(PyObject* object) {
    Step const root;
    if (options_.host) {
      node(object, &root);
    } else {
      whole_pickle(object, &root, "family host is not among the families");
    }
    bool const cuda = options_.cuda && device_nbytes_ >= options_.device_least;
    if (cuda && any_device_) writer_.add_family("cuda");
    Layout layout;
    msgpack::Packer const header = writer_.finish(options_.limits, layout, cuda ? options_.device_pack : 0);
    Encoded encoded;
    encoded.header = take(PyBytes_FromStringAndSize(reinterpret_cast<char const*>(header.bytes().data()),
                                                    static_cast<Py_ssize_t>(header.size())));
    encoded.frames = outgoing_.frames(layout, cuda);
    auto const families = writer_.families();
    encoded.families = take(PyTuple_New(static_cast<Py_ssize_t>(families.size())));
    for (std::size_t i = 0; i < families.size(); ++i) {
      check(PyTuple_SetItem(encoded.families.get(), static_cast<Py_ssize_t>(i), str(families[i]).release()));
    }
    if (options_.record != nullptr) resolve_frames(layout);
    return encoded;
  }

 private:
  // ── Nodes ──────────────────────────────────────────────────────────────────────────────────────────────

  void node(PyObject* o, Step const* at) {
    PyTypeObject* const t = Py_TYPE(o);
    if (t == &PyUnicode_Type) return text(o);
    if (t == &PyLong_Type) return integer(o);
    if (t == &PyFloat_Type) return out_.real(PyFloat_AsDouble(o));
    if (o == Py_None) return out_.nil();
    if (t == &PyBool_Type) return out_.boolean(o == Py_True);
    if (t == &PyBytes_Type) return bytes(o);
    compound(o, t, at);
  }

  void compound(PyObject* o, PyTypeObject* t, Step const* at) {
    bool const shared = Py_REFCNT(o) > 1 + std::exchange(ours_, 0);
    if (shared) {
      if (auto const* number = memo_.find(o)) return ref(*number);
    }
    if (++depth_ > limits::depth || !stack_.room()) too_deep(at);
    Ref const hold = Ref::borrow(o);  // the object's own methods may drop it from where we found it
    if (t == &PyList_Type) {
      list(o, shared, at);
    } else if (t == &PyDict_Type) {
      dict(o, shared, at);
    } else if (t == &PyTuple_Type) {
      tuple(o, shared, at);
    } else {
      ClassInfo& info = class_info(t);
      switch (info.kind) {
        case Kind::set: set(o, shared, at, Op::set); break;
        case Kind::frozenset: set(o, shared, at, Op::frozenset); break;
        case Kind::bytearray: bytearray(o, shared); break;
        case Kind::complex: complex(o, shared); break;
        case Kind::slice: slice(o, shared, at, Op::slice); break;
        case Kind::range: slice(o, shared, at, Op::range); break;
        case Kind::memoryview:
        case Kind::pickle_buffer: memoryview(o, shared, at); break;
        case Kind::name: name_node(o, nullptr, at); break;
        case Kind::ndarray: ndarray(o, shared, at); break;
        case Kind::scalar: scalar(o, shared, at); break;
        case Kind::dtype: dtype(o, shared, at); break;
        case Kind::adapted: adapted(o, info, shared, at); break;
        case Kind::arrow: arrow(o, info, shared, at); break;
        case Kind::device: device(o, shared, at); break;
        case Kind::plain: plain(o, info, shared, at); break;
        case Kind::reduce: reduce(o, info, shared, at); break;
      }
    }
    --depth_;
  }

  /// Opens a tagged array of `parts` elements behind the op; a shared object takes the next memo number.
  std::uint32_t begin(Op op, std::size_t parts, bool shared) {
    out_.array(parts + 1);
    out_.unsigned_integer(static_cast<std::uint8_t>(op) | (shared ? mark : 0));
    return shared ? next_number_++ : 0;
  }

  void ref(std::uint32_t number) {
    out_.array(2);
    out_.unsigned_integer(static_cast<std::uint8_t>(Op::ref));
    out_.unsigned_integer(number);
  }

  void remember(PyObject* o, bool shared, std::uint32_t number) {
    if (shared) memo_.insert(o, number);
  }

  // ── Values ─────────────────────────────────────────────────────────────────────────────────────────────

  void text(PyObject* o) {
    Py_ssize_t n = 0;
    Py_INCREF(o);  // the error of a text that UTF-8 cannot write may, before CPython 3.12, begin a collection and with it foreign code
    char const* const data = PyUnicode_AsUTF8AndSize(o, &n);
    if (data == nullptr) return text_with_surrogates(Ref(o));
    Py_DECREF(o);
    // A reference costs three bytes or more, so very short texts are cheaper as they are.
    if (n > 2 && Py_REFCNT(o) > 1) {
      if (auto const* number = memo_.find(o)) return ref(*number);
      std::uint32_t const number = begin(Op::value, 1, true);
      memo_.insert(o, number);
    }
    out_.str({data, static_cast<std::size_t>(n)});
  }

  [[gnu::noinline]] void text_with_surrogates(Ref held) {
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) throw Raised{};
    PyErr_Clear();
    PyObject* const o = held.get();
    bool const shared = Py_REFCNT(o) > 2;
    if (shared) {
      if (auto const* number = memo_.find(o)) return ref(*number);
    }
    Ref const encoded = take(PyUnicode_AsEncodedString(o, "utf-8", "surrogatepass"));
    remember(o, shared, begin(Op::text, 1, shared));
    out_.bin(bytes_of(encoded.get()));
  }

  void integer(PyObject* o) {
    int overflow = 0;
    long long const value = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow == 0) {
      if (value == -1 && PyErr_Occurred() != nullptr) throw Raised{};
      return out_.integer(value);
    }
    big_integer(o, overflow > 0);
  }

  [[gnu::noinline]] void big_integer(PyObject* o, bool positive) {
    CollectorPaused const paused;  // as for texts; nothing here gives the GIL away
    if (positive) {
      unsigned long long const big = PyLong_AsUnsignedLongLong(o);
      if (big != static_cast<unsigned long long>(-1) || PyErr_Occurred() == nullptr) return out_.unsigned_integer(big);
      PyErr_Clear();
    }
    std::array<std::byte, 8 * big_words> words;
    Ref rest = Ref::borrow(o);
    for (std::size_t n = 0; n < big_words; ++n) {
      auto const low = static_cast<std::uint64_t>(PyLong_AsUnsignedLongLongMask(rest.get()));
      std::memcpy(words.data() + n * sizeof(low), &low, sizeof(low));
      if (n > 0) {
        int overflow = 0;
        long long const high = PyLong_AsLongLongAndOverflow(rest.get(), &overflow);
        if (overflow == 0) return bigint({words.data(), (n + 1) * sizeof(high)});
      }
      rest = take(PyNumber_Rshift(rest.get(), globals().sixty_four));
    }
    Ref const bits = call_method(o, "bit_length");
    Py_ssize_t const nbytes = PyLong_AsSsize_t(bits.get()) / 8 + 1;
    static PyObject* const to_bytes = intern("to_bytes");
    Ref const method = attr(o, to_bytes);
    Ref const args = take(Py_BuildValue("(ns)", nbytes, "little"));
    Ref const kwargs = take(Py_BuildValue("{sO}", "signed", Py_True));
    Ref const encoded = take(PyObject_Call(method.get(), args.get(), kwargs.get()));
    bigint(bytes_of(encoded.get()));
  }

  /// Two's complement, without the bytes that only repeat the sign.
  void bigint(std::span<std::byte const> bytes) {
    auto const negative = [&](std::size_t i) { return (bytes[i] & std::byte{0x80}) != std::byte{}; };
    std::size_t n = bytes.size();
    while (n > 1 && bytes[n - 1] == (negative(n - 2) ? std::byte{0xff} : std::byte{})) --n;
    begin(Op::bigint, 1, false);
    out_.bin(bytes.first(n));
  }

  [[gnu::noinline]] void bytes(PyObject* o) {
    auto const content = bytes_of(o);
    bool const large = content.size() > static_cast<std::size_t>(inline_nbytes);
    bool const shared = content.size() > 2 && Py_REFCNT(o) > 1;
    if (shared) {
      if (auto const* number = memo_.find(o)) return ref(*number);
    }
    if (!large) {
      if (shared) memo_.insert(o, begin(Op::value, 1, true));
      return out_.bin(content);
    }
    remember(o, shared, begin(Op::bytes, 1, shared));
    Keeper keeper;
    keeper.object = Ref::borrow(o);
    out_.unsigned_integer(outgoing_.add(content, std::move(keeper)));
  }

  static std::span<std::byte const> bytes_of(PyObject* o) {
    return {reinterpret_cast<std::byte const*>(PyBytes_AsString(o)), static_cast<std::size_t>(PyBytes_Size(o))};
  }

  [[gnu::noinline]] void bytearray(PyObject* o, bool shared) {
    remember(o, shared, begin(Op::bytearray, 1, shared));
    data(BufferView(o, PyBUF_SIMPLE));
  }

  /// A data field: inline when small, else a payload that keeps the view.
  [[gnu::noinline]] void data(BufferView view) {
    auto const content = view.bytes();
    if (content.size() <= static_cast<std::size_t>(inline_nbytes)) return out_.bin(content);
    Keeper keeper;
    keeper.readonly = view->readonly != 0;
    keeper.view = std::move(view);
    out_.unsigned_integer(outgoing_.add(content, std::move(keeper)));
  }

  [[gnu::noinline]] void device(PyObject* o, bool shared, Step const* at) {
    DeviceMemory const& memory = *as_device_memory(o);
    remember(o, shared, begin(Op::device, 2, shared));
    Keeper keeper;
    keeper.object = Ref::borrow(o);
    keeper.device = memory.device;
    keeper.stream = memory.stream;
    keeper.readonly = memory.readonly;
    std::uint32_t const payload = outgoing_.add({static_cast<std::byte const*>(memory.data()), memory.nbytes}, std::move(keeper));
    out_.unsigned_integer(payload);
    out_.boolean(memory.readonly);
    any_device_ = true;
    device_nbytes_ += memory.nbytes;
    note(at, o, "device memory", options_.cuda ? "cuda" : "host", {&payload, 1}, memory.nbytes, options_.cuda ? "" : "family cuda is not among the families: the bytes come to host memory");
  }

  [[gnu::noinline]] void memoryview(PyObject* o, bool shared, Step const* at) {
    BufferView view(o, PyBUF_FULL_RO);
    char const* const format = view->format != nullptr ? view->format : "B";
    static constinit Once calcsize;
    Ref const size(PyObject_CallFunction(calcsize([] { return attr(import("struct").get(), "calcsize"); }), "s", format));
    if (!size) PyErr_Clear();
    if (!size || PyLong_AsSsize_t(size.get()) != view->itemsize) {
      return as_array(o, shared, at, cat("a memoryview of format ", format, ", which the struct module does not know"));
    }
    if (numpy_if_loaded() != nullptr && shows_more_than_it_has(view)) return as_array(o, shared, at, "");
    remember(o, shared, begin(Op::memoryview, 4, shared));
    out_.str(format);
    int const ndim = view->ndim;
    bool const readonly = view->readonly != 0;
    std::vector<Py_ssize_t> const shape(view->shape, view->shape + ndim);
    if (PyBuffer_IsContiguous(view.operator->(), 'C') != 0) {
      data(std::move(view));
    } else {
      std::byte* memory = nullptr;
      auto const nbytes = static_cast<std::size_t>(view->len);
      Keeper keeper = Keeper::allocate(nbytes, memory);
      check(PyBuffer_ToContiguous(memory, view.operator->(), view->len, 'C'));
      out_.unsigned_integer(outgoing_.add({memory, nbytes}, std::move(keeper)));
    }
    out_.array(shape.size());
    for (Py_ssize_t const n : shape) out_.integer(n);
    out_.boolean(readonly);
  }

  /// What only NumPy understands of memoryviews: `why` nothing else does.
  [[gnu::noinline]] void as_array(PyObject* o, bool shared, Step const* at, std::string const& why) {
    if (numpy_if_loaded() == nullptr) unsupported(at, why);
    py::run_lazy_importer("numpy");
    fallback_adapter(o, "numpy.memoryview", shared, at, why);
  }

  [[gnu::noinline]] void complex(PyObject* o, bool shared) {
    remember(o, shared, begin(Op::complex, 2, shared));
    out_.real(PyComplex_RealAsDouble(o));
    out_.real(PyComplex_ImagAsDouble(o));
  }

  [[gnu::noinline]] void slice(PyObject* o, bool shared, Step const* at, Op op) {
    std::size_t const start = out_.size();
    std::uint32_t const number = begin(op, 3, shared);
    for (char const* part : {"start", "stop", "step"}) {
      Step const step{.parent = at, .kind = Step::Kind::part, .part = part};
      node(attr(o, part).get(), &step);
    }
    complete(o, shared, number, start);
  }

  // ── Containers ─────────────────────────────────────────────────────────────────────────────────────────

  [[gnu::noinline]] void list(PyObject* o, bool shared, Step const* at) {
    Py_ssize_t const n = PyList_Size(o);
    if (n >= floats_min && floats(o, n, shared)) return;
    remember(o, shared, begin(Op::list, static_cast<std::size_t>(n), shared));
    Step step{.parent = at, .kind = Step::Kind::index};
    for (; step.index < n; ++step.index) {
      PyObject* const item = PyList_GetItem(o, step.index);
      if (item == nullptr) break;
      node(item, &step);
    }
    PyErr_Clear();
    if (step.index != n || PyList_Size(o) != n) changed(at);
  }

  /// Writes a list that holds nothing but floats as one payload. False: it holds something else, nothing was written.
  [[gnu::noinline]] bool floats(PyObject* o, Py_ssize_t n, bool shared) {
    for (Py_ssize_t i = 0; i < n; ++i) {
      if (Py_TYPE(PyList_GetItem(o, i)) != &PyFloat_Type) return false;
    }
    auto const nbytes = static_cast<std::size_t>(n) * sizeof(double);
    std::byte* memory = nullptr;
    Keeper keeper = Keeper::allocate(nbytes, memory);
    for (Py_ssize_t i = 0; i < n; ++i) {
      double const value = PyFloat_AsDouble(PyList_GetItem(o, i));
      std::memcpy(memory + static_cast<std::size_t>(i) * sizeof(double), &value, sizeof(double));
    }
    remember(o, shared, begin(Op::floats, 1, shared));
    if (nbytes <= static_cast<std::size_t>(inline_nbytes)) {
      out_.bin({memory, nbytes});
    } else {
      out_.unsigned_integer(outgoing_.add({memory, nbytes}, std::move(keeper)));
    }
    return true;
  }

  [[gnu::noinline]] void tuple(PyObject* o, bool shared, Step const* at) {
    Py_ssize_t const n = PyTuple_Size(o);
    if (n == 0) shared = false;
    std::size_t const start = out_.size();
    std::uint32_t const number = begin(Op::tuple, static_cast<std::size_t>(n), shared);
    Step step{.parent = at, .kind = Step::Kind::index};
    for (; step.index < n; ++step.index) node(PyTuple_GetItem(o, step.index), &step);
    complete(o, shared, number, start);
  }

  /// Remembers an object that cannot be referred to from inside. Where it contains itself by way of a list, the walk inside has
  /// written and remembered it already: then the object is that one, and ours was only read for what it defines.
  void complete(PyObject* o, bool shared, std::uint32_t number, std::size_t start) {
    if (!shared) return;
    auto const* const inner = memo_.find(o);
    if (inner == nullptr) return memo_.insert(o, number);
    std::uint32_t const known = *inner;
    msgpack::Packer head;
    head.array(3);
    head.unsigned_integer(static_cast<std::uint8_t>(Op::last));
    out_.insert(start, head.bytes());
    ref(known);
  }

  [[gnu::noinline]] void set(PyObject* o, bool shared, Step const* at, Op op) {
    Ref const items = take(PySequence_List(o));
    Py_ssize_t const n = PyList_Size(items.get());
    std::size_t const start = out_.size();
    std::uint32_t const number = begin(op, static_cast<std::size_t>(n), shared);
    if (op == Op::set) remember(o, shared, number);
    Step step{.parent = at, .kind = Step::Kind::index};
    for (; step.index < n; ++step.index) node(PyList_GetItem(items.get(), step.index), &step);
    if (op == Op::frozenset) complete(o, shared, number, start);
  }

  [[gnu::noinline]] void dict(PyObject* o, bool shared, Step const* at) {
    auto const n = static_cast<std::size_t>(PyDict_Size(o));
    // The first dict of a message is rarely followed by one with the same keys, so it is not looked up.
    if (ndicts_++ > 0 && n > 0 && n <= shape_keys) {
      if (Shape const* const shape = record_shape(o, n)) return record(o, *shape, shared, at);
    }
    if (shared) memo_.insert(o, begin(Op::value, 1, true));
    out_.map(n);
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    Py_ssize_t position = 0;
    std::size_t seen = 0;
    Step key_step{.parent = at, .kind = Step::Kind::key_itself};
    Step step{.parent = at, .kind = Step::Kind::key};
    while (PyDict_Next(o, &position, &key, &value) != 0) {
      if (++seen > n) changed(at);
      key_step.index = static_cast<Py_ssize_t>(seen - 1);
      step.key = key;
      // Writing a key that is an object may run its methods, which may drop both; so may writing the value, and errors show the key.
      bool const object = !is_atom(key);
      Ref hold = Ref::borrow(value);
      Ref hold_key = object ? Ref::borrow(key) : Ref{};
      if (object) ours_ = 1;
      node(key, &key_step);
      if (!object) {  // the dict holds the value, or let go of it while a text without UTF-8 was written
        if (Py_REFCNT(value) == 1) changed(at);
        hold = Ref{};
      }
      if (!object && !is_atom(value)) hold_key = Ref::borrow(key);
      if (object && !is_atom(value)) ours_ = 1;
      node(value, &step);
    }
    if (seen != n || static_cast<std::size_t>(PyDict_Size(o)) != n) changed(at);
  }

  static bool is_atom(PyObject* o) {
    PyTypeObject* const t = Py_TYPE(o);
    return t == &PyUnicode_Type || t == &PyLong_Type || t == &PyFloat_Type || o == Py_None || t == &PyBool_Type || t == &PyBytes_Type;
  }

  /// A dict whose keys are the same str objects as those of a dict before: its shape. The second dict of its kind defines it.
  [[gnu::noinline]] Shape const* record_shape(PyObject* o, std::size_t n) {
    std::array<PyObject*, shape_keys> keys{};
    std::size_t hash = n;
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    Py_ssize_t position = 0;
    std::size_t i = 0;
    while (i < n && PyDict_Next(o, &position, &key, &value) != 0) {
      if (Py_TYPE(key) != &PyUnicode_Type) return nullptr;
      keys[i++] = key;
      hash = (hash ^ reinterpret_cast<std::uintptr_t>(key)) * 0x9e3779b97f4a7c15ULL;
    }
    if (i != n) return nullptr;
    auto [entry, added] = records_.try_emplace(hash);
    if (added) {
      if (records_.size() > 4096) {  // as many kinds of dict as dicts: stop looking
        records_.erase(entry);
        return nullptr;
      }
      for (std::size_t k = 0; k < n; ++k) keep(keys[k]);
      entry->second.shape.keys.assign(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(n));
      return nullptr;
    }
    Record& record = entry->second;
    if (!std::equal(record.shape.keys.begin(), record.shape.keys.end(), keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(n))) {
      return nullptr;
    }
    if (!record.defined) {
      auto const number = define_shape(std::nullopt, record.shape.keys);
      if (!number) return nullptr;
      record.shape.number = *number;
      record.defined = true;
    }
    return &record.shape;
  }

  [[gnu::noinline]] void record(PyObject* o, Shape const& shape, bool shared, Step const* at) {
    std::size_t const n = shape.keys.size();
    remember(o, shared, begin(Op::record, n + 1, shared));
    out_.unsigned_integer(shape.number);
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    Py_ssize_t position = 0;
    std::size_t seen = 0;
    Step step{.parent = at, .kind = Step::Kind::key};
    while (PyDict_Next(o, &position, &key, &value) != 0) {
      if (seen >= n || key != shape.keys[seen]) changed(at);
      ++seen;
      step.key = key;
      node(value, &step);
    }
    if (seen != n) changed(at);
  }

  /// Nothing when a key is no text that a shape can hold (lone surrogates).
  std::optional<std::uint32_t> define_shape(std::optional<std::uint32_t> cls, std::vector<PyObject*> const& keys) {
    std::vector<std::string_view> texts;
    texts.reserve(keys.size());
    for (PyObject* key : keys) {
      Py_ssize_t n = 0;
      char const* const data = PyUnicode_AsUTF8AndSize(key, &n);
      if (data == nullptr) {
        PyErr_Clear();
        return std::nullopt;
      }
      texts.emplace_back(data, static_cast<std::size_t>(n));
    }
    return writer_.add_shape(cls, texts);
  }

  // ── Names ──────────────────────────────────────────────────────────────────────────────────────────────

  [[gnu::noinline]] void name_node(PyObject* o, PyObject* qualname, Step const* at) {
    std::uint32_t const index = name(o, qualname, role::hand_on, at);
    begin(Op::name, 1, false);
    out_.unsigned_integer(index);
  }

  /// The index of a class or function in names. Without family pickle it must be trusted for `role`.
  std::uint32_t name(PyObject* o, PyObject* qualname, long role, Step const* at) {
    auto const known = names_.find(o);
    if (known != names_.end() && (known->second.roles & role) == role) return known->second.index;
    Named named;
    std::string why;
    Ref const text = importable_name(o, qualname, why);
    long const roles = text ? trusted_roles(text.get()) : 0;
    if ((roles & role) == role) {
      named.roles = roles;
      named.index = known != names_.end() ? known->second.index : writer_.add_name(utf8(text.get()));
    } else {
      if (o == globals().builtin_getattr) {
        why = "getattr reaches everything";
      } else if (text) {
        why = cat(utf8(text.get()), roles == 0 ? " is not on the trust list" : " is trusted, but not to be called or handed on like this",
                  "; transload.trust(\"", utf8(text.get()), "\") puts it there");
      }
      if (!options_.names) unsupported(at, why);
      named.roles = role::make | role::call | role::hand_on;
      bool const by_name = text && !goes_by_value(text.get());
      if (known != names_.end()) {
        named.index = known->second.index;
      } else if (by_name) {
        named.index = writer_.add_name(utf8(text.get()));
      } else {
        Ref const pickled = pickle_by_value(o, false, at, why);
        named.index = writer_.add_name_by_value(bytes_of(PyTuple_GetItem(pickled.get(), 0)));
      }
      writer_.add_family("pickle");
      note(at, o, by_name ? "name" : "by value", "pickle", {}, 0, why);
    }
    if (known == names_.end()) keep(o);
    names_[o] = named;
    return named.index;
  }

  std::uint32_t class_name(ClassInfo& info, long role, Step const* at) { return name(info.cls.get(), nullptr, role, at); }

  void keep(PyObject* o) {
    Py_INCREF(o);
    kept_.push_back(o);
  }

  // ── NumPy ──────────────────────────────────────────────────────────────────────────────────────────────

  struct Dtype {
    std::vector<std::byte> raw;
    bool object = false;
    std::string why_not;  ///< not raw, and why
  };

  /// Dtypes without names, which nothing can change, stay known from message to message, as many as this.
  static constexpr std::size_t most_plain_dtypes = 64;

  static std::unordered_map<PyObject*, Dtype>& plain_dtypes() {
    static auto& kept = *new std::unordered_map<PyObject*, Dtype>;  // outlives the interpreter
    return kept;
  }

  Dtype const& dtype_of(PyObject* dtype) {
    if (dtype == last_dtype_) return *last_dtype_raw_;
    last_dtype_ = dtype;
    auto const known = plain_dtypes().find(dtype);
    last_dtype_raw_ = known != plain_dtypes().end() ? &known->second : &dtype_of_message(dtype);
    return *last_dtype_raw_;
  }

  [[gnu::noinline]] Dtype const& dtype_of_message(PyObject* dtype) {
    auto [entry, added] = dtypes_.try_emplace(dtype);
    if (added) {
      keep(dtype);
      msgpack::Packer part;
      static PyObject* const hasobject = intern("hasobject");
      Ref const has_object = attr(dtype, hasobject);
      if (auto why = pack_dtype(part, dtype)) {
        entry->second.why_not = *why;
      } else if (has_object.get() == Py_True) {
        static PyObject* const names = intern("names");
        static PyObject* const subdtype = intern("subdtype");
        entry->second.object = attr(dtype, names).get() == Py_None && attr(dtype, subdtype).get() == Py_None;
        if (!entry->second.object) entry->second.why_not = "a structured dtype with objects inside";
      }
      if (part.size() != 0 && msgpack::Reader::is_array(static_cast<std::uint8_t>(part.bytes()[0]))) {  // long, and seldom alone
        std::uint32_t const number = writer_.add_dtype(part.bytes());
        part.clear();
        part.unsigned_integer(number);
      }
      auto const raw = part.bytes();
      entry->second.raw.assign(raw.begin(), raw.end());
      if (!raw.empty() && msgpack::Reader::is_str(static_cast<std::uint8_t>(raw[0])) && entry->second.why_not.empty() && plain_dtypes().size() < most_plain_dtypes) {
        Dtype& kept = plain_dtypes()[Ref::borrow(dtype).release()] = std::move(entry->second);
        dtypes_.erase(entry);
        return kept;
      }
    }
    return entry->second;
  }

  [[gnu::noinline]] void dtype(PyObject* o, bool shared, Step const* at) {
    Dtype const& known = dtype_of(o);
    if (known.raw.empty()) return fallback_adapter(o, "numpy.dtype", shared, at, known.why_not);
    remember(o, shared, begin(Op::dtype, 1, shared));
    out_.raw(known.raw);
  }

  [[gnu::noinline]] void scalar(PyObject* o, bool shared, Step const* at) {
    Ref const dt = attr(o, globals().dtype);
    Dtype const& known = dtype_of(dt.get());
    if (!known.why_not.empty() || known.object) return fallback_adapter(o, "numpy.scalar", shared, at, known.why_not);
    BufferView const view(o, PyBUF_STRIDED_RO);
    remember(o, shared, begin(Op::scalar, 2, shared));
    out_.raw(known.raw);
    out_.bin(view.bytes());
  }

  [[gnu::noinline]] void ndarray(PyObject* o, bool shared, Step const* at) {
    Ref const dt = attr(o, globals().dtype);
    Dtype const& known = dtype_of(dt.get());
    if (!known.why_not.empty()) return fallback_adapter(o, "numpy.ndarray", shared, at, known.why_not);
    BufferView view(o, PyBUF_STRIDED_RO);
    Form const form = form_of(view);
    if (known.object) {
      if (shows_more_than_it_has(view)) return fallback_adapter(o, "numpy.ndarray", shared, at, "");
      return object_array(o, view, shared, at);
    }
    if (form == Form::scattered) {
      // Neither in one piece nor a window of something smaller: one copy that keeps the order of the axes.
      static PyObject* const copy = intern("copy");
      Ref const method = attr(o, copy);
      Ref const kwargs = take(Py_BuildValue("{ss}", "order", "K"));
      Ref const compact = take(PyObject_Call(method.get(), globals().empty_tuple, kwargs.get()));
      bool const readonly = view->readonly != 0;
      BufferView compact_view(compact.get(), PyBUF_STRIDED_RO);
      Form const compact_form = form_of(compact_view);
      expects(compact_form != Form::scattered, ErrorKind::failed, "a compact copy is scattered");
      return write_array(o, known, std::move(compact_view), compact_form, readonly, shared, at, "copied: the view is scattered");
    }
    // NumPy exports what broadcast_arrays made as read-only, though it may be written to (with a warning).
    bool const readonly = view->readonly != 0 && !(shows_more_than_it_has(view) && is_writeable(o));
    write_array(o, known, std::move(view), form, readonly, shared, at, "");
  }

  static bool is_writeable(PyObject* array) {
    static PyObject* const flags = intern("flags");
    static PyObject* const num = intern("num");  // of the flags one by one NumPy warns
    constexpr long writeable = 0x400;
    Ref const all = attr(attr(array, flags).get(), num);
    return (PyLong_AsLong(all.get()) & writeable) != 0;
  }

  enum class Form : std::uint8_t { c_order, fortran, window, scattered };

  /// Lowest byte and one past the highest that the view's items touch.
  static std::pair<std::byte const*, std::byte const*> extent(BufferView const& view) {
    auto const* low = static_cast<std::byte const*>(view->buf);
    auto const* high = low + view->itemsize;
    for (int i = 0; i < view->ndim; ++i) {
      Py_ssize_t const reach = (view->shape[i] - 1) * view->strides[i];
      (reach < 0 ? low : high) += reach;
    }
    return {low, high};
  }

  static Form form_of(BufferView const& view) {
    if (PyBuffer_IsContiguous(view.operator->(), 'C') != 0) return Form::c_order;
    if (PyBuffer_IsContiguous(view.operator->(), 'F') != 0) return Form::fortran;
    auto const [low, high] = extent(view);
    Py_ssize_t nitems = 1;
    for (int i = 0; i < view->ndim; ++i) nitems *= view->shape[i];
    return high - low <= nitems * view->itemsize ? Form::window : Form::scattered;
  }

  /// Whether items lie on the same memory: a broadcast, overlapping windows.
  static bool shows_more_than_it_has(BufferView const& view) {
    if (view->len == 0) return false;
    auto const [low, high] = extent(view);
    return high - low < view->len;
  }

  [[gnu::noinline]] void write_array(PyObject* o, Dtype const& dtype, BufferView view, Form form, bool readonly, bool shared, Step const* at,
                   std::string const& reason) {
    unsigned const flags = (readonly ? array_flags::readonly : 0) | (form == Form::fortran ? array_flags::fortran : 0);
    bool const window = form == Form::window;
    remember(o, shared, begin(Op::array, window ? 6 : flags != 0 ? 4 : 3, shared));
    out_.raw(dtype.raw);
    auto const [low, high] = window ? extent(view) : std::pair{view.bytes().data(), view.bytes().data() + view->len};
    std::span<std::byte const> const content{low, high};
    int const ndim = view->ndim;
    std::array<Py_ssize_t, limits::ndim> shape;
    std::array<Py_ssize_t, limits::ndim> strides;
    expects(static_cast<std::size_t>(ndim) <= limits::ndim, ErrorKind::unsupported, [&] { return cat(path(at), ": ", ndim, " dimensions"); });
    std::copy_n(view->shape, ndim, shape.begin());
    std::copy_n(view->strides, ndim, strides.begin());
    auto const first = static_cast<std::byte const*>(view->buf);
    Keeper keeper;
    keeper.readonly = view->readonly != 0;
    keeper.view = std::move(view);
    std::uint32_t const payload = outgoing_.add(content, std::move(keeper));
    out_.unsigned_integer(payload);
    write_shape({shape.data(), static_cast<std::size_t>(ndim)});
    if (window || flags != 0) out_.unsigned_integer(flags);
    if (window) {
      out_.array(static_cast<std::size_t>(ndim));
      for (int i = 0; i < ndim; ++i) out_.integer(strides[static_cast<std::size_t>(i)]);
      out_.integer(first - low);
    }
    note(at, o, "ndarray", "host", {&payload, 1}, content.size(), reason);
  }

  void write_shape(std::span<Py_ssize_t const> shape) {
    if (shape.size() == 1) return out_.integer(shape[0]);
    out_.array(shape.size());
    for (Py_ssize_t const n : shape) out_.integer(n);
  }

  [[gnu::noinline]] void object_array(PyObject* o, BufferView const& view, bool shared, Step const* at) {
    Py_ssize_t nitems = 1;
    for (int i = 0; i < view->ndim; ++i) nitems *= view->shape[i];
    bool const fortran = PyBuffer_IsContiguous(view.operator->(), 'C') == 0 && PyBuffer_IsContiguous(view.operator->(), 'F') != 0;
    unsigned const flags = (view->readonly != 0 ? array_flags::readonly : 0) | (fortran ? array_flags::fortran : 0);
    remember(o, shared, begin(Op::object_array, 2 + static_cast<std::size_t>(nitems), shared));
    write_shape({view->shape, static_cast<std::size_t>(view->ndim)});
    out_.unsigned_integer(flags);
    std::vector<Py_ssize_t> index(static_cast<std::size_t>(view->ndim), 0);
    Step step{.parent = at, .kind = Step::Kind::index};
    if (++object_arrays_ > most_object_arrays) unsupported(at, cat("object arrays nested ", object_arrays_, " deep; at most ", most_object_arrays));
    for (; step.index < nitems; ++step.index) {
      auto const* place = static_cast<std::byte const*>(view->buf);
      for (std::size_t d = 0; d < index.size(); ++d) place += index[d] * view->strides[d];
      PyObject* item = nullptr;
      std::memcpy(&item, place, sizeof(item));
      if (item == nullptr) item = Py_None;
      node(item, &step);
      for (std::size_t k = 0; k < index.size(); ++k) {
        std::size_t const d = fortran ? k : index.size() - 1 - k;
        if (++index[d] < view->shape[d]) break;
        index[d] = 0;
      }
    }
    --object_arrays_;
    note(at, o, "object array", "host", {}, 0, "");
  }

  // ── Adapters ───────────────────────────────────────────────────────────────────────────────────────────

  [[gnu::noinline]] void adapted(PyObject* o, ClassInfo& info, bool shared, Step const* at) {
    if (info.stream_of_message && options_.record == nullptr && device_array(o, info, shared, at)) return;
    Ref value = Ref(PyObject_CallFunctionObjArgs(info.hook.get(), o, nullptr));
    if (!value) {
      if (!PyErr_ExceptionMatches(PyExc_NotImplementedError)) annotate(at);
      if (PyErr_ExceptionMatches(dict_get(globals().errors, str("unsendable").get()))) refused(at);
      std::string const reason = cat("adapter ", utf8(info.wire_name.get()), ": ", error_text());
      ClassInfo generic;
      generic.cls = Ref::borrow(info.cls.get());
      note(at, o, "graph", "host", {}, 0, reason);
      return reduce(o, generic, shared, at);
    }
    if (info.wire_index < 0) info.wire_index = writer_.add_name(utf8(info.wire_name.get()));
    write_adapted(o, static_cast<std::uint32_t>(info.wire_index), std::move(value), shared, at);
    note(at, o, std::string(utf8(info.wire_name.get())), "host", {}, 0, "");
  }

  /// Writes what the adapter would for an array whose items lie one behind the other. False, with nothing written: it is not such a one.
  [[gnu::noinline]] bool device_array(PyObject* o, ClassInfo& info, bool shared, Step const* at) {
    std::optional<DeviceArray> const array = contiguous_device_array(o);
    if (!array) return false;
    if (!info.stream) {
      Ref const stream = Ref(PyObject_CallFunctionObjArgs(info.stream_of_message.get(), nullptr));
      if (!stream) annotate(at);
      info.stream = static_cast<StreamHandle>(PyLong_AsUnsignedLongLong(stream.get()));
      if (PyErr_Occurred() != nullptr) annotate(at);
    }
    if (info.wire_index < 0) info.wire_index = writer_.add_name(utf8(info.wire_name.get()));
    std::size_t const start = out_.size();
    std::uint32_t const number = begin(Op::adapted, 2, shared);
    out_.unsigned_integer(static_cast<std::uint64_t>(info.wire_index));
    begin(Op::tuple, 3, true);  // marked, as what an adapter made always is; nothing refers to it
    begin(Op::device, 2, false);
    Keeper keeper;
    keeper.object = Ref::borrow(o);
    keeper.device = array->device;
    keeper.stream = *info.stream;
    keeper.readonly = false;
    out_.unsigned_integer(outgoing_.add({reinterpret_cast<std::byte const*>(array->pointer), array->nbytes}, std::move(keeper)));
    out_.boolean(false);
    any_device_ = true;
    device_nbytes_ += array->nbytes;
    ++depth_;  // the tuple's level
    Step step{.parent = at, .kind = Step::Kind::index, .index = 1};
    node(array->dtype.get(), &step);
    ++step.index;
    node(array->shape.get(), &step);
    --depth_;
    complete(o, shared, number, start);
    return true;
  }

  [[gnu::noinline]] void write_adapted(PyObject* o, std::uint32_t wire_index, Ref value, bool shared, Step const* at) {
    std::size_t const start = out_.size();
    std::uint32_t const number = begin(Op::adapted, 2, shared);
    out_.unsigned_integer(wire_index);
    keep(value.get());  // what encode made is temporary, but its parts may be shared with the object
    node(value.get(), at);
    complete(o, shared, number, start);
  }

  /// What the walk itself cannot write of NumPy goes through the adapter of that wire name; without one by its reduce method.
  [[gnu::noinline]] void fallback_adapter(PyObject* o, char const* wire_name, bool shared, Step const* at, std::string const& why) {
    Ref const name = str(wire_name);
    PyObject* const hook = dict_get(globals().adapters_by_type, name.get());
    if (hook != nullptr) {
      ClassInfo& info = fallbacks_[wire_name];
      if (!info.cls) {
        info.cls = Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(o)));
        info.wire_name = Ref::borrow(PyTuple_GetItem(hook, 0));
        info.hook = Ref::borrow(PyTuple_GetItem(hook, 1));
      }
      return adapted(o, info, shared, at);
    }
    ClassInfo generic;
    generic.cls = Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(o)));
    note(at, o, "graph", "host", {}, 0, why);
    reduce(o, generic, shared, at);
  }

  [[gnu::noinline]] void arrow(PyObject* o, ClassInfo& info, bool shared, Step const* at) {
    std::size_t const before = writer_.payloads().size();
    auto const number = encode_arrow_node(o, utf8(info.wire_name.get()), shared, at);
    if (!number) {
      char const* const why = "it has an extension type that is not registered here (pyarrow.register_extension_type)";
      if (!options_.names) unsupported(at, why);
      ClassInfo generic;
      generic.cls = Ref::borrow(info.cls.get());
      note(at, o, "graph", "host", {}, 0, why);
      return reduce(o, generic, shared, at);
    }
    remember(o, shared, *number);
    std::vector<std::uint32_t> payloads;
    std::size_t nbytes = 0;
    for (std::size_t p = before; p < writer_.payloads().size(); ++p) {
      payloads.push_back(static_cast<std::uint32_t>(p));
      nbytes += writer_.payloads()[p].size();
    }
    note(at, o, "arrow", "host", payloads, nbytes, "");
  }

  std::optional<std::uint32_t> encode_arrow_node(PyObject* o, std::string_view kind, bool shared, Step const* at) {
    try {
      if (!encode_arrow(writer_, outgoing_, o, kind, shared)) return std::nullopt;
    } catch (Error const& error) {
      throw Error(error.kind(), cat(path(at), ": ", error.what()));
    }
    return shared ? next_number_++ : 0;
  }

  // ── Objects ────────────────────────────────────────────────────────────────────────────────────────────

  /// An instance of a class that leaves copying to `object`: its attributes under a shape.
  [[gnu::noinline]] void plain(PyObject* o, ClassInfo& info, bool shared, Step const* at) {
    std::size_t const base = keys_.size();  // keys of objects around this one lie below
    Ref attributes;
    bool fits = true;
    Py_ssize_t const nslots = info.slots ? PyList_Size(info.slots.get()) : 0;
    std::vector<Ref> held_keys;  // asking for a slot may run the class's __getattr__, which may drop keys
    if (info.has_dict) {
      attributes = attr(o, globals().dunder_dict);
      if (Py_TYPE(attributes.get()) != &PyDict_Type || static_cast<std::size_t>(PyDict_Size(attributes.get())) > shape_keys) {
        fits = false;
      } else {
        PyObject* key = nullptr;
        PyObject* value = nullptr;
        Py_ssize_t position = 0;
        while (PyDict_Next(attributes.get(), &position, &key, &value) != 0) {
          if (Py_TYPE(key) != &PyUnicode_Type) fits = false;
          keys_.push_back(key);
          if (nslots > 0) held_keys.push_back(Ref::borrow(key));
        }
      }
    }
    std::size_t const nattributes = keys_.size() - base;
    if (nattributes + static_cast<std::size_t>(nslots) > shape_keys) fits = false;
    for (Py_ssize_t i = 0; fits && i < nslots; ++i) {
      PyObject* const slot = PyList_GetItem(info.slots.get(), i);
      if (try_attr(o, slot)) keys_.push_back(slot);
    }
    Shape const* const shape = fits ? shape_of(info, std::span(keys_).subspan(base), at) : nullptr;
    if (shape == nullptr) {
      keys_.resize(base);
      return reduce(o, info, shared, at);
    }
    std::size_t const n = keys_.size() - base;

    remember(o, shared, begin(Op::object, n + 1, shared));
    out_.unsigned_integer(shape->number);
    note(at, o, "graph", "host", {}, 0, "");
    // Writing a value may run methods that change this object's dict: each value is taken when its turn comes.
    Step step{.parent = at, .kind = Step::Kind::attribute};
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    Py_ssize_t position = 0;
    std::size_t seen = 0;
    while (nattributes > 0 && PyDict_Next(attributes.get(), &position, &key, &value) != 0) {
      if (seen >= nattributes || key != keys_[base + seen]) changed(at);
      ++seen;
      step.key = key;
      node(value, &step);
    }
    if (seen != nattributes) changed(at);
    for (; seen < n; ++seen) {
      step.key = keys_[base + seen];
      Ref held = try_attr(o, keys_[base + seen]);
      if (!held) changed(at);
      value = held.get();
      // The slot owns the value; our own reference would make it look shared.
      if (Py_REFCNT(value) > 1) held = Ref{};
      node(value, &step);
    }
    keys_.resize(base);
  }

  Shape const* shape_of(ClassInfo& info, std::span<PyObject* const> keys, Step const* at) {
    for (Shape const& shape : info.shapes) {
      if (shape.keys.size() == keys.size() && std::equal(keys.begin(), keys.end(), shape.keys.begin())) return &shape;
    }
    if (info.shapes.size() >= shapes_of_class) return nullptr;
    for (PyObject* key : keys) keep(key);  // naming the class may run Python
    std::uint32_t const cls = class_name(info, role::make, at);
    Shape shape;
    shape.keys.assign(keys.begin(), keys.end());
    auto const number = define_shape(cls, shape.keys);
    if (!number) return nullptr;
    shape.number = *number;
    info.shapes.push_back(std::move(shape));
    return &info.shapes.back();
  }

  /// An object by what its reduce method says, to the letter of the protocol (pickle 5).
  [[gnu::noinline]] void reduce(PyObject* o, ClassInfo const& info, bool shared, Step const* at) {
    Globals const& g = globals();
    if (auto const known = names_.find(o); known != names_.end() && (known->second.roles & role::hand_on) != 0) {  // it gave its name before
      begin(Op::name, 1, false);
      return out_.unsigned_integer(known->second.index);
    }
    Ref result;
    if (info.hook) {
      result = Ref(PyObject_CallFunctionObjArgs(info.hook.get(), o, nullptr));
    } else {
      Ref const method = try_attr(o, g.dunder_reduce_ex);
      if (method) {
        result = Ref(PyObject_CallFunctionObjArgs(method.get(), g.five, nullptr));
      } else {
        Ref const older = try_attr(o, g.dunder_reduce);
        if (!older) unsupported(at, cat("a ", type_name(o), " has neither __reduce_ex__ nor __reduce__"));
        result = Ref(PyObject_CallFunctionObjArgs(older.get(), nullptr));
      }
    }
    if (!result) {
      // "cannot pickle …" is how the protocol says that an object has no state to send.
      if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(g.pickle_error)) annotate(at);
      std::string const why = error_text();
      if (!options_.pickle) unsupported(at, why);
      return leaf_pickle(o, shared, at, why);
    }
    if (PyUnicode_Check(result.get())) return name_node(o, result.get(), at);
    if (!PyTuple_Check(result.get())) {
      unsupported(at, cat("__reduce__ of a ", type_name(o), " gave a ", type_name(result.get()), ", not a str or a tuple"));
    }
    Py_ssize_t const n = PyTuple_Size(result.get());
    if (n < 2 || n > 6) unsupported(at, cat("__reduce__ of a ", type_name(o), " gave ", n, " values, 2 to 6 are allowed"));
    auto const part = [&](Py_ssize_t i) { return i < n ? PyTuple_GetItem(result.get(), i) : Py_None; };
    PyObject* const function = part(0);
    PyObject* const args = part(1);
    if (!PyTuple_Check(args)) unsupported(at, cat("__reduce__ of a ", type_name(o), " gave no tuple of arguments"));
    if (function == g.builtin_getattr && method(o, args, shared, at)) return;
    PyObject* const state = part(2);
    Ref const items = part(3) == Py_None ? Ref{} : sequence(part(3), at);
    Ref const pairs = part(4) == Py_None ? Ref{} : sequence(part(4), at);
    PyObject* const setter = part(5);

    std::size_t extra = 0;
    if (state != Py_None) extra = 1;
    if (items && PyList_Size(items.get()) > 0) extra = 2;
    if (pairs && PyList_Size(pairs.get()) > 0) extra = 3;
    if (setter != Py_None) extra = 4;

    std::size_t const start = out_.size();
    std::uint32_t number = 0;
    note(at, o, "graph", "host", {}, 0, "");
    if (function == g.copyreg_newobj || function == g.copyreg_newobj_ex) {
      bool const with_kwargs = function == g.copyreg_newobj_ex;
      PyObject* const cls = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : nullptr;
      if (cls == nullptr || !PyType_Check(cls) || (with_kwargs && PyTuple_Size(args) != 3)) {
        unsupported(at, cat("__reduce__ of a ", type_name(o), " gave __newobj__ without a class"));
      }
      std::uint32_t const index = name(cls, nullptr, role::make, at);
      number = begin(with_kwargs ? Op::new_kw : Op::new_, (with_kwargs ? 3 : 2) + extra, shared);
      out_.unsigned_integer(index);
      if (with_kwargs) {
        arguments(PyTuple_GetItem(args, 1), 0, at);
        keyword_arguments(PyTuple_GetItem(args, 2), at);
      } else {
        arguments(args, 1, at);
      }
    } else {
      bool const by_call = is_called_by_parts(function, at);
      std::uint32_t const index = name(by_call ? g.operator_call : function, nullptr, role::call, at);
      number = begin(Op::reduce, 2 + extra, shared);
      out_.unsigned_integer(index);
      arguments(args, 0, at, by_call ? function : nullptr);
    }
    bool const inside_out = shared && memo_.find(o) != nullptr;
    if (!inside_out) remember(o, shared, number);

    if (extra >= 1) {
      // State is written before items and pairs are, but applied after them.
      Step const step{.parent = at, .kind = Step::Kind::part, .part = "__getstate__()"};
      state_node(state, at, &step);
    }
    if (extra >= 2) raw_nodes(items.get(), at, false);
    if (extra >= 3) raw_nodes(pairs.get(), at, true);
    if (extra >= 4) out_.unsigned_integer(name(setter, nullptr, role::call, at));
    if (inside_out) complete(o, shared, number, start);
  }

  /// Methods reduce to `getattr(owner, name)`, which bytes may never ask for. Those of a class go by their name, those of an object as the
  /// class's function and the object, if the function is trusted. False: nothing was written, the protocol says what to do.
  [[gnu::noinline]] bool method(PyObject* o, PyObject* args, bool shared, Step const* at) {
    static PyObject* const dunder_func = intern("__func__");
    if (PyTuple_Size(args) != 2 || !PyUnicode_Check(PyTuple_GetItem(args, 1))) return false;
    PyObject* const owner = PyTuple_GetItem(args, 0);
    PyObject* const attribute = PyTuple_GetItem(args, 1);
    bool const of_class = PyType_Check(owner) != 0;
    Ref function = of_class ? Ref{} : try_attr(o, dunder_func);
    Ref qualname;
    if (of_class) {
      Ref const path = try_attr(owner, globals().dunder_qualname);
      if (path && PyUnicode_Check(path.get())) qualname = take(PyUnicode_FromFormat("%U.%U", path.get(), attribute));
    } else if (!function) {
      function = try_attr(reinterpret_cast<PyObject*>(Py_TYPE(owner)), attribute);
    }
    if (of_class ? !qualname : !function) return false;
    std::string why;
    Ref const text = importable_name(of_class ? o : function.get(), qualname.get(), why);
    bool const trusted = text && (trusted_roles(text.get()) & role::hand_on) != 0;
    if (!trusted) {
      std::string const reason =
          text ? cat("the method ", utf8(text.get()), " is not on the trust list; transload.trust(\"", utf8(text.get()), "\") puts it there") : cat("a method: ", why);
      if (!options_.names) unsupported(at, reason);
      note(at, o, "graph", "pickle", {}, 0, reason);
      return false;
    }
    if (of_class) {
      name_node(o, qualname.get(), at);
    } else {
      if (method_wire_name_ < 0) method_wire_name_ = writer_.add_name("standard.method");
      write_adapted(o, static_cast<std::uint32_t>(method_wire_name_), take(PyTuple_Pack(2, function.get(), owner)), shared, at);
      note(at, o, "standard.method", "host", {}, 0, "");
    }
    return true;
  }

  /// A partial or a method of an object has no name, so that the call of it is what is written, of a function that may be called and handed on.
  [[gnu::noinline]] bool is_called_by_parts(PyObject* function, Step const* at) {
    static constinit Once partial_class;
    static constinit Once method_class;
    PyObject* const partial = partial_class([] { return attr(import("functools").get(), "partial"); });
    PyObject* const method = method_class([] { return attr(import("types").get(), "MethodType"); });
    static PyObject* const func = intern("func");
    static PyObject* const dunder_func = intern("__func__");
    static PyObject* const dunder_self = intern("__self__");
    Ref inside = Ref::borrow(function);
    if (reinterpret_cast<PyObject*>(Py_TYPE(inside.get())) == partial) inside = attr(inside.get(), func);
    if (reinterpret_cast<PyObject*>(Py_TYPE(inside.get())) == method && !PyType_Check(attr(inside.get(), dunder_self).get())) {
      inside = attr(inside.get(), dunder_func);
    }
    if (inside.get() == function) return false;
    std::string why;
    Ref const text = importable_name(inside.get(), nullptr, why);
    if (text && (trusted_roles(text.get()) & (role::call | role::hand_on)) == (role::call | role::hand_on)) return true;
    if (text) why = cat(utf8(text.get()), " is not trusted to be called; transload.trust(\"", utf8(text.get()), "\") allows it");
    if (!options_.names) unsupported(at, why);
    note(at, function, "graph", "pickle", {}, 0, why);
    return false;
  }

  /// The state; its keys read as attributes in paths.
  void state_node(PyObject* state, Step const* at, Step const* step) { node(state, Py_TYPE(state) == &PyDict_Type ? at : step); }

  Ref sequence(PyObject* iterator, Step const* at) {
    Ref list(PySequence_List(iterator));
    if (!list) annotate(at);
    return list;
  }

  [[gnu::noinline]] void arguments(PyObject* args, Py_ssize_t first, Step const* at, PyObject* before = nullptr) {
    if (!PyTuple_Check(args)) unsupported(at, "constructor arguments that are no tuple");
    Py_ssize_t const n = PyTuple_Size(args);
    out_.array(static_cast<std::size_t>(n - first) + (before != nullptr ? 1 : 0));
    Step step{.parent = at, .kind = Step::Kind::part, .part = "__reduce__() argument"};
    if (before != nullptr) node(before, &step);
    for (Py_ssize_t i = first; i < n; ++i) node(PyTuple_GetItem(args, i), &step);
  }

  [[gnu::noinline]] void keyword_arguments(PyObject* kwargs, Step const* at) {
    if (Py_TYPE(kwargs) != &PyDict_Type) unsupported(at, "keyword arguments that are no dict");
    Py_ssize_t const n = PyDict_Size(kwargs);
    out_.map(static_cast<std::size_t>(n));
    Py_ssize_t seen = 0;
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    Py_ssize_t position = 0;
    Step step{.parent = at, .kind = Step::Kind::key};
    while (PyDict_Next(kwargs, &position, &key, &value) != 0) {
      if (!PyUnicode_Check(key) || !is_utf8(key)) unsupported(at, "a keyword argument whose name is no str, or none that UTF-8 can write");
      if (++seen > n) changed(at);
      Ref const hold_key = Ref::borrow(key);
      out_.str(utf8(key));
      step.key = key;
      node(value, &step);
    }
    if (seen != n) changed(at);
  }

  [[gnu::noinline]] void raw_nodes(PyObject* list, Step const* at, bool pairs) {
    Py_ssize_t const n = list == nullptr ? 0 : PyList_Size(list);
    if (n == 0) return out_.nil();
    out_.array(static_cast<std::size_t>(pairs ? 2 * n : n));
    Step step{.parent = at, .kind = Step::Kind::index};
    for (; step.index < n; ++step.index) {
      PyObject* const item = PyList_GetItem(list, step.index);
      if (!pairs) {
        node(item, &step);
        continue;
      }
      if (!PyTuple_Check(item) || PyTuple_Size(item) != 2) unsupported(at, "dict items that are no pairs");
      Step const key_step{.parent = at, .kind = Step::Kind::key_itself, .index = step.index};
      node(PyTuple_GetItem(item, 0), &key_step);
      Step const value_step{.parent = at, .kind = Step::Kind::key, .key = PyTuple_GetItem(item, 0)};
      node(PyTuple_GetItem(item, 1), &value_step);
    }
  }

  // ── Pickle ─────────────────────────────────────────────────────────────────────────────────────────────

  /// Whether the module of a name is another one at the receiver: ``__main__``, or what cloudpickle was told to send.
  static bool goes_by_value(PyObject* name) {
    Ref const told = take(PyObject_CallFunctionObjArgs(globals().goes_by_value, name, nullptr));
    return told.get() == Py_True;
  }

  [[gnu::noinline]] Ref pickle_by_value(PyObject* o, bool whole, Step const* at, std::string const& why) {
    if (!options_.pickle) unsupported(at, cat(why, why.empty() ? "" : "; ", "only a pickle takes it, and that is not allowed"));
    Ref result(PyObject_CallFunctionObjArgs(globals().by_value, o, whole ? Py_True : Py_False, nullptr));
    if (!result) {
      if (!PyErr_ExceptionMatches(PyExc_Exception)) throw Raised{};
      unsupported(at, cat(why, why.empty() ? "" : "; pickle: ", error_text()));
    }
    return result;
  }

  [[gnu::noinline]] void leaf_pickle(PyObject* o, bool shared, Step const* at, std::string const& why) {
    Ref const pickled = pickle_by_value(o, false, at, why);
    write_pickle(o, pickled.get(), shared, at, why);
  }

  void whole_pickle(PyObject* o, Step const* at, std::string const& why) {
    if (!options_.pickle) unsupported(at, cat(why, " and neither is pickle"));
    Ref const pickled = pickle_by_value(o, true, at, "");
    write_pickle(o, pickled.get(), false, at, why);
  }

  void write_pickle(PyObject* o, PyObject* pickled, bool shared, Step const* at, std::string const& why) {
    PyObject* const content = PyTuple_GetItem(pickled, 0);
    PyObject* const buffers = PyTuple_GetItem(pickled, 1);
    Py_ssize_t const nbuffers = PyList_Size(buffers);
    writer_.add_family("pickle");
    std::size_t const start = out_.size();
    std::uint32_t const number = begin(Op::pickle, static_cast<std::size_t>(1 + nbuffers), shared);
    auto const bytes = bytes_of(content);
    if (bytes.size() <= static_cast<std::size_t>(inline_nbytes)) {
      out_.bin(bytes);
    } else {
      Keeper keeper;
      keeper.object = Ref::borrow(content);
      out_.unsigned_integer(outgoing_.add(bytes, std::move(keeper)));
    }
    for (Py_ssize_t i = 0; i < nbuffers; ++i) memoryview(PyList_GetItem(buffers, i), false, at);
    complete(o, shared, number, start);
    note(at, o, "pickle", "pickle", {}, bytes.size(), why);
  }

  // ── Classes ────────────────────────────────────────────────────────────────────────────────────────────

  [[gnu::noinline]] ClassInfo& class_info(PyTypeObject* t) {
    if (t == last_type_) return *last_info_;
    auto [entry, added] = classes_.try_emplace(t);
    if (added) {
      entry->second = std::make_unique<ClassInfo>();
      try {
        look_at(*entry->second, t);
      } catch (...) {
        classes_.erase(t);
        throw;
      }
    }
    last_type_ = t;
    last_info_ = entry->second.get();
    return *last_info_;
  }

  void look_at(ClassInfo& info, PyTypeObject* t) {
    Globals const& g = globals();
    auto* const cls = reinterpret_cast<PyObject*>(t);
    info.cls = Ref::borrow(cls);
    struct Builtin {
      PyTypeObject* type;
      Kind kind;
    };
    static Builtin const builtins[] = {{&PySet_Type, Kind::set},           {&PyFrozenSet_Type, Kind::frozenset}, {&PyByteArray_Type, Kind::bytearray},
                                       {&PyComplex_Type, Kind::complex},   {&PySlice_Type, Kind::slice},         {&PyRange_Type, Kind::range},
                                       {&PyMemoryView_Type, Kind::memoryview}, {&PyType_Type, Kind::name},
                                       {reinterpret_cast<PyTypeObject*>(g.function_type), Kind::name}};
    for (Builtin const& builtin : builtins) {
      if (builtin.type == t) {
        info.kind = builtin.kind;
        return;
      }
    }
    if (t == device_memory_type()) {
      info.kind = Kind::device;
      return;
    }
    if (cls == g.pickle_buffer_type) {
      info.kind = Kind::pickle_buffer;
      return;
    }
    Ref const mro = attr(cls, g.dunder_mro);
    // A user's subclass has a module of its own; its last base is object.
    for (Py_ssize_t i = 0; i == 0 || i + 1 < PyTuple_Size(mro.get()); ++i) run_lazy_importer(PyTuple_GetItem(mro.get(), i));
    if (PyObject* const adapter = dict_get(g.adapters_by_type, cls)) return use_adapter(info, adapter);
    // Proxies have the names of the classes that they stand for: what takes all subclasses of a base goes before what goes by a name.
    for (Py_ssize_t i = 1; i < PyTuple_Size(mro.get()); ++i) {
      PyObject* const adapter = adapter_of(PyTuple_GetItem(mro.get(), i));
      if (adapter != nullptr && takes_all_subclasses(adapter)) return use_adapter(info, adapter);
    }
    if (PyObject* const adapter = adapter_of(cls)) return use_adapter(info, adapter);
    Numpy const* const np = numpy_if_loaded();
    bool const array = np != nullptr && PyType_IsSubtype(t, reinterpret_cast<PyTypeObject*>(np->ndarray)) != 0;
    // Arrow rebuilds a user's extension array by its type, so what fits the base fits the subclass; so do adapters that say it.
    run_arrows_importer();
    for (Py_ssize_t i = 1; i < PyTuple_Size(mro.get()); ++i) {
      PyObject* const base = PyTuple_GetItem(mro.get(), i);
      PyObject* const adapter = adapter_of(base);
      if (adapter != nullptr && (PyUnicode_Check(PyTuple_GetItem(adapter, 1)) || fits_subclass(adapter, base, cls))) return use_adapter(info, adapter);
    }
    if (np != nullptr) {
      if (cls == np->ndarray) {
        info.kind = Kind::ndarray;
        return;
      }
      if (PyType_IsSubtype(t, reinterpret_cast<PyTypeObject*>(np->dtype))) {
        info.kind = Kind::dtype;
        return;
      }
      if (PyType_IsSubtype(t, reinterpret_cast<PyTypeObject*>(np->generic)) && is_numpys_own(cls)) {
        info.kind = Kind::scalar;
        return;
      }
      if (array && keeps_ndarray_protocol(cls, np->ndarray)) {
        // A subclass that leaves copying to ndarray: its array, class and attributes, by the adapter.
        Ref const name = str("numpy.subclass");
        if (PyObject* const adapter = dict_get(g.adapters_by_type, name.get())) return use_adapter(info, adapter);
      }
    }
    if (PyObject* const function = dict_get(g.copyreg_dispatch_table, cls); function != nullptr && !is_wrapping(t, function)) {
      info.kind = Kind::reduce;
      info.hook = Ref::borrow(function);
      return;
    }
    if (PyType_IsSubtype(t, &PyType_Type) != 0) {
      info.kind = Kind::name;
      return;
    }
    info.kind = is_plain(info, cls, t) ? Kind::plain : Kind::reduce;
  }

  /// Whether copyreg's function for a class is one that a library put there to wrap what others do, and means nothing to a receiver: importing
  /// distributed lets tblib pickle all exceptions with their tracebacks, cudf.pandas lets itself pickle pandas' objects. They go as without it.
  static bool is_wrapping(PyTypeObject* t, PyObject* function) {
    Ref const module = try_attr(function, globals().dunder_module);
    if (!module || PyUnicode_Check(module.get()) == 0) return false;
    std::string const name = lossy_utf8(module.get());
    if (name == "tblib.pickling_support") return PyType_IsSubtype(t, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)) != 0;
    return name.starts_with("cudf.pandas.");
  }

  static bool is_numpys_own(PyObject* cls) {
    Ref const module = attr(cls, globals().dunder_module);
    return PyUnicode_Check(module.get()) && utf8(module.get()) == "numpy";
  }

  static bool same_method(PyObject* cls, PyObject* base, PyObject* name) {
    Ref const here = try_attr(cls, name);
    Ref const there = try_attr(base, name);
    return here.get() == there.get();
  }

  static bool keeps_ndarray_protocol(PyObject* cls, PyObject* ndarray) {
    Globals const& g = globals();
    return same_method(cls, ndarray, g.dunder_reduce_ex) && same_method(cls, ndarray, g.dunder_reduce) &&
           same_method(cls, ndarray, g.dunder_setstate) && same_method(cls, ndarray, g.dunder_getstate);
  }

  static bool takes_all_subclasses(PyObject* adapter) {
    return PyTuple_Size(adapter) >= 3 && PyTuple_Check(PyTuple_GetItem(adapter, 2)) != 0 && PyTuple_Size(PyTuple_GetItem(adapter, 2)) == 0;
  }

  /// Whether an adapter is meant for subclasses, or for those that keep certain methods of its class, and this one does.
  static bool fits_subclass(PyObject* adapter, PyObject* base, PyObject* cls) {
    if (PyTuple_Size(adapter) < 3) return false;
    PyObject* const methods = PyTuple_GetItem(adapter, 2);
    if (PyTuple_Check(methods) == 0) return true;
    for (Py_ssize_t i = 0; i < PyTuple_Size(methods); ++i) {
      if (!same_method(cls, base, PyTuple_GetItem(methods, i))) return false;
    }
    return true;
  }

  static void use_adapter(ClassInfo& info, PyObject* adapter) {
    PyObject* const hook = PyTuple_GetItem(adapter, 1);
    if (PyObject* const wire_name = PyTuple_GetItem(adapter, 0); PyUnicode_Check(wire_name) != 0 && PyUnicode_GetLength(wire_name) == 0) {
      info.kind = Kind::reduce;  // in place of the class's own reduce method
      info.hook = Ref::borrow(hook);
      return;
    }
    bool const arrow = PyUnicode_Check(hook) != 0;
    info.kind = arrow ? Kind::arrow : Kind::adapted;
    info.wire_name = Ref::borrow(arrow ? hook : PyTuple_GetItem(adapter, 0));
    if (arrow) return;
    info.hook = Ref::borrow(hook);
    static PyObject* const stream = intern("stream_of_message");
    if (reinterpret_cast<PyObject*>(Py_TYPE(hook)) == globals().function_type) info.stream_of_message = try_attr(hook, stream);
  }

  /// By the class itself, or by its name where an adapter does without importing the class.
  static PyObject* adapter_of(PyObject* cls) {
    Globals const& g = globals();
    if (PyObject* const adapter = dict_get(g.adapters_by_type, cls)) return adapter;
    Ref const module = try_attr(cls, g.dunder_module);
    Ref const path = try_attr(cls, g.dunder_qualname);
    if (!module || !path || !PyUnicode_Check(module.get()) || !PyUnicode_Check(path.get())) return nullptr;
    return dict_get(g.adapters_by_type, str(cat(lossy_utf8(module.get()), ":", lossy_utf8(path.get()))).get());
  }

  static void run_lazy_importer(PyObject* cls) {
    Globals const& g = globals();
    if (PyDict_Size(g.lazy) == 0) return;
    Ref const module = try_attr(cls, g.dunder_module);
    if (!module || !PyUnicode_Check(module.get())) return;
    std::string const name = lossy_utf8(module.get());
    py::run_lazy_importer(name);
  }

  /// Whether instances can be written as attributes under a shape: a class made in Python that changes nothing of how
  /// `object` copies, so that reduce would say `__newobj__(cls)` and the attributes.
  bool is_plain(ClassInfo& info, PyObject* cls, PyTypeObject* t) {
    Globals const& g = globals();
    if ((PyType_GetFlags(t) & Py_TPFLAGS_HEAPTYPE) == 0) return false;
    if (attr(cls, g.dunder_reduce_ex).get() != g.object_reduce_ex || attr(cls, g.dunder_reduce).get() != g.object_reduce) return false;
    if (attr(cls, g.dunder_getstate).get() != g.object_getstate) return false;
    if (try_attr(cls, g.dunder_setstate) || try_attr(cls, g.dunder_getnewargs) || try_attr(cls, g.dunder_getnewargs_ex)) return false;
    // Every base is object or made in Python too: a base in C may hold state that object.__reduce_ex__ asks about.
    Ref const mro = attr(cls, g.dunder_mro);
    Py_ssize_t const nbases = PyTuple_Size(mro.get());
    for (Py_ssize_t i = 0; i < nbases; ++i) {
      auto* const base = reinterpret_cast<PyTypeObject*>(PyTuple_GetItem(mro.get(), i));
      if (base == &PyBaseObject_Type) continue;
      if ((PyType_GetFlags(base) & Py_TPFLAGS_HEAPTYPE) == 0 || !made_in_python(reinterpret_cast<PyObject*>(base))) return false;
    }
    Ref const slots = take(PyObject_CallFunctionObjArgs(g.copyreg_slotnames, cls, nullptr));
    if (PyList_Check(slots.get()) && PyList_Size(slots.get()) > 0) info.slots = take(PySequence_List(slots.get()));
    Ref const dict = try_attr(cls, "__dictoffset__");
    info.has_dict = dict && PyLong_AsSsize_t(dict.get()) != 0;
    return true;
  }

  /// Classes from a class statement have `__module__` in their own dict and take weak references or slots by Python's rules; heap types
  /// from C have no `__dict__` entry "__dict__" or slots of Python's kind, which is what tells them apart here.
  static bool made_in_python(PyObject* cls) {
    Ref const size = attr(cls, "__basicsize__");
    Ref const base = attr(cls, "__base__");
    Ref const base_size = attr(base.get(), "__basicsize__");
    Ref const items = attr(cls, "__itemsize__");
    if (PyLong_AsSsize_t(items.get()) != 0) return false;
    Ref const slots = try_attr(cls, "__slots__");
    Py_ssize_t allowed = 2;  // __dict__ and __weakref__
    if (slots) {
      Py_ssize_t const n = PyUnicode_Check(slots.get()) ? 1 : PyObject_Size(slots.get());
      if (n < 0) {
        PyErr_Clear();
        return false;
      }
      allowed += n;
    }
    Py_ssize_t const grown = PyLong_AsSsize_t(size.get()) - PyLong_AsSsize_t(base_size.get());
    return grown <= allowed * static_cast<Py_ssize_t>(sizeof(PyObject*));
  }

  // ── Saying what happened ───────────────────────────────────────────────────────────────────────────────

  [[noreturn, gnu::noinline]] static void unsupported(Step const* at, std::string const& why) { raise(ErrorKind::unsupported, cat(path(at), ": ", why)); }

  [[noreturn, gnu::noinline]] void too_deep(Step const* at) const {
    unsupported(at, cat("nested ", depth_, " deep; at most ", limits::depth, ", or what this thread's stack holds"));
  }

  [[noreturn, gnu::noinline]] static void changed(Step const* at) { raise(ErrorKind::failed, cat(path(at), " changed while it was encoded")); }

  /// The error that is set, as text; clears it.
  static std::string error_text() {
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    Ref const hold_type(type), hold_value(value), hold_trace(trace);
    Ref const text(value == nullptr ? nullptr : PyObject_Str(value));
    if (!text) {
      PyErr_Clear();
      return "an error without a text";
    }
    return lossy_utf8(text.get());
  }

  /// An adapter has the last word on the object: its error, with the place in front.
  [[noreturn, gnu::noinline]] static void refused(Step const* at) {
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    Ref const hold_type(type), hold_value(value), hold_trace(trace);
    Ref const said = take(PyObject_Str(value));
    PyErr_SetObject(type, lossy_str(cat(path(at), ": ", lossy_utf8(said.get()))).get());
    throw Raised{};
  }

  /// Adds to the error that is set where in the object it happened, and throws on.
  [[noreturn]] static void annotate(Step const* at) {
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value != nullptr) {
      Ref const done(PyObject_CallMethod(value, "add_note", "s", cat("transload: while encoding ", path(at)).c_str()));
      if (!done) PyErr_Clear();
    }
    PyErr_Restore(type, value, trace);
    throw Raised{};
  }

  [[gnu::noinline]] void note(Step const* at, PyObject* o, std::string const& adapter, char const* family, std::span<std::uint32_t const> payloads,
            std::size_t nbytes, std::string const& reason) {
    if (options_.record == nullptr) [[likely]] return;
    Ref const numbers = take(PyList_New(0));
    for (std::uint32_t const p : payloads) check(PyList_Append(numbers.get(), take(PyLong_FromUnsignedLong(p)).get()));
    std::string const where = path(at);
    std::string const type = type_name(o);
    Ref const row = take(Py_BuildValue("[s#s#s#sOns#]", where.data(), static_cast<Py_ssize_t>(where.size()), type.data(),
                                       static_cast<Py_ssize_t>(type.size()), adapter.data(), static_cast<Py_ssize_t>(adapter.size()), family,
                                       numbers.get(), static_cast<Py_ssize_t>(nbytes), reason.data(), static_cast<Py_ssize_t>(reason.size())));
    check(PyList_Append(options_.record, row.get()));
  }

  /// Turns the payload numbers of the record into frame numbers.
  void resolve_frames(Layout const& layout) const {
    Py_ssize_t const n = PyList_Size(options_.record);
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* const row = PyList_GetItem(options_.record, i);
      PyObject* const numbers = PyList_GetItem(row, 4);
      Ref const frames = take(PyList_New(0));
      for (Py_ssize_t k = 0; k < PyList_Size(numbers); ++k) {
        Place const& place = layout.places[PyLong_AsUnsignedLong(PyList_GetItem(numbers, k))];
        for (std::uint32_t f = 0; f < place.nframes; ++f) {
          check(PyList_Append(frames.get(), take(PyLong_FromUnsignedLong(place.frame + f)).get()));
        }
      }
      check(PyList_SetItem(row, 4, Ref::borrow(frames.get()).release()));
    }
  }

  struct Named {
    std::uint32_t index = 0;
    long roles = 0;
  };
  struct Record {
    Shape shape;
    bool defined = false;
  };

  EncodeOptions const& options_;
  HeaderWriter writer_;
  msgpack::Packer& out_;
  std::uint64_t device_nbytes_ = 0;
  bool any_device_ = false;
  Outgoing outgoing_;
  Memo memo_;
  StackGuard stack_;
  std::uint32_t next_number_ = 0;
  std::size_t depth_ = 0;
  std::size_t object_arrays_ = 0;  ///< around the node that is written
  std::size_t ndicts_ = 0;
  std::unordered_map<PyTypeObject*, std::unique_ptr<ClassInfo>> classes_;
  PyTypeObject* last_type_ = nullptr;
  ClassInfo* last_info_ = nullptr;
  std::unordered_map<PyObject*, Named> names_;
  std::unordered_map<std::size_t, Record> records_;
  std::unordered_map<PyObject*, Dtype> dtypes_;
  std::unordered_map<std::string, ClassInfo> fallbacks_;
  PyObject* last_dtype_ = nullptr;
  Dtype const* last_dtype_raw_ = nullptr;
  std::vector<PyObject*> kept_;
  std::vector<PyObject*> keys_;
  std::int64_t method_wire_name_ = -1;
  Py_ssize_t ours_ = 0;  ///< references that the walk itself holds to the object that compound() is about to see
};

}  // namespace

StackGuard::StackGuard() {
  // Asking the system reads /proc on the main thread, so once a thread.
  thread_local char const* const low = [] {
    pthread_attr_t attributes;
    void* start = nullptr;
    std::size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return static_cast<char const*>(nullptr);
    pthread_attr_getstack(&attributes, &start, &size);
    pthread_attr_destroy(&attributes);
    std::size_t const spare = std::min<std::size_t>(std::size_t{256} << 10, size / 4);
    return static_cast<char const*>(start) + spare;
  }();
  low_ = low;
}

Encoded encode(PyObject* object, EncodeOptions const& options) { return Encoder(options).run(object); }

Ref encode_error(std::string_view text) {
  HeaderWriter writer;
  writer.add_family("error");
  writer.root().array(2);
  writer.root().unsigned_integer(static_cast<std::uint8_t>(Op::error));
  writer.root().str(text);
  Layout layout;
  msgpack::Packer const header = writer.finish({}, layout);
  return take(PyBytes_FromStringAndSize(reinterpret_cast<char const*>(header.bytes().data()), static_cast<Py_ssize_t>(header.size())));
}

}  // namespace transload::py
