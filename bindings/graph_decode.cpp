#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "arrow.hpp"
#include "frames.hpp"
#include "globals.hpp"
#include "graph.hpp"
#include "numpy.hpp"
#include "trees.hpp"
#include "transload/adapters/place.hpp"
#include "transload/base/error.hpp"
#include "transload/base/limits.hpp"
#include "transload/message/header.hpp"
#include "transload/message/op.hpp"

namespace transload::py {

namespace {

using msgpack::Reader;
using msgpack::Token;
using msgpack::Type;

/// Collection passes over half-built objects cost more than the building; they wait until the message is read.
class CollectorPaused {
 public:
  CollectorPaused() : was_enabled_(PyGC_Disable() != 0) {}
  CollectorPaused(CollectorPaused const&) = delete;
  CollectorPaused& operator=(CollectorPaused const&) = delete;
  ~CollectorPaused() {
    if (was_enabled_) PyGC_Enable();
  }

 private:
  bool was_enabled_;
};

__extension__ using Wide = __int128;  // offsets and strides from outside cannot overflow it

class Decoder {
 public:
  Decoder(std::span<std::byte const> bytes, PyObject* frames, DecodeOptions options)
      : bytes_(bytes), options_(options), header_(Header::parse(bytes, count(frames))), reader_(bytes), incoming_(header_, frames) {
    reader_.seek(header_.root_offset);
    names_.resize(header_.names.size());
    shapes_.resize(header_.shapes.size());
    trees_.trusting = options_.pickle;
    for (std::uint64_t const n : header_.layout.frame_nbytes) frames_nbytes_ += n;
  }
  Decoder(Decoder const&) = delete;
  Decoder& operator=(Decoder const&) = delete;

  Ref run() {
    check_names();
    CollectorPaused const paused;
    Ref object = node();
    if (!reader_.done()) reader_.fail_here("the root node ends before the header does");
    settle();
    return object;
  }

 private:
  /// Code that is not known to leave trees alone may run next: those that came so far must have been looked at.
  void settle() {
    if (!trees_.pending()) return;
    if (auto const failure = trees_.settle()) {
      Reader::fail_at(failure->place, cat(place_in_object(bytes_, header_, failure->place), ": ", failure->text));
    }
  }

  /// A header cannot ask for more frames than came.
  static std::size_t count(PyObject* frames) {
    Py_ssize_t const n = PyObject_Size(frames);
    if (n < 0) throw Raised{};
    return static_cast<std::size_t>(n);
  }

  // ── Names ──────────────────────────────────────────────────────────────────────────────────────────────

  struct Named {
    long roles = 0;
    Ref object;   ///< once asked for
    Ref stand_in;  ///< what is called in its place, if anything is
    Ref text;     ///< str, for names that are no pickles
  };

  /// Every name is judged before anything is built.
  void check_names() {
    for (std::size_t i = 0; i < header_.names.size(); ++i) {
      NameEntry const& entry = header_.names[i];
      Named& named = names_[i];
      if (entry.by_value) {
        if (!options_.pickle) refuse(i, "a class or function by value (a pickle)", "");
        named.roles = role::make | role::call | role::hand_on;
        continue;
      }
      named.text = text_of(entry.text, [&] { return cat("name ", i); });
      if (entry.is_wire_name()) {
        PyObject* decode = dict_get(globals().adapters_by_name, named.text.get());
        if (decode == nullptr) {
          run_lazy_importer(entry.text);
          decode = dict_get(globals().adapters_by_name, named.text.get());
        }
        if (decode == nullptr) {
          refuse(i, cat("no adapter is registered under the wire name ", entry.text), "; transload.register(cls, name=…) registers it");
        }
        named.object = Ref::borrow(decode);
        continue;
      }
      if (entry.text.find("<locals>") != std::string_view::npos || entry.text.find(':') == 0 || entry.text.back() == ':') {
        refuse(i, cat("the name ", entry.text, " names nothing"), "");
      }
      named.roles = trusted_roles(named.text.get());
      if (named.roles == 0) {
        if (!options_.pickle) {
          refuse(i, cat(entry.text, " is not on the trust list"), cat("; transload.trust(\"", entry.text, "\") puts it there"));
        }
        named.roles = role::make | role::call | role::hand_on;
      } else if (options_.pickle) {
        named.roles = role::make | role::call | role::hand_on;
      }
    }
  }

  [[noreturn]] void refuse(std::size_t name, std::string const& what, std::string const& remedy) const {
    std::optional<std::size_t> const offset = first_use_of_name(bytes_, header_, name);
    std::string const where = offset ? place_in_object(bytes_, header_, *offset) : std::string("names");
    throw UntrustedName(cat(where, ": ", what, options_.pickle ? "" : " and family pickle is not allowed here", remedy));
  }

  /// The object behind a name that the bytes use in this role.
  PyObject* named(std::uint64_t index, long role) {
    if (index >= names_.size()) reader_.fail_here(cat("name ", index, " of ", names_.size()));
    Named& entry = names_[index];
    if ((entry.roles & role) != role) {
      char const* const use = role == role::make ? "to make an instance" : role == role::call ? "to be called" : "to be handed on";
      refuse(index, cat(header_.names[index].is_wire_name() ? "wire name " : "", header_.names[index].text, " is not trusted ", use),
             cat("; transload.trust(\"", header_.names[index].text, "\") allows it"));
    }
    NameEntry const& name = header_.names[index];
    // A class that is handed on or made is itself; only calls go to the one that looks first.
    if (role == role::call && !name.by_value) {
      if (!entry.stand_in) {
        run_lazy_importer(name.text);  // it may bring a stand-in
        entry.stand_in = Ref::borrow(dict_get(globals().overrides, entry.text.get()));
      }
      if (entry.stand_in) return entry.stand_in.get();
    }
    if (!entry.object) {
      if (name.by_value) {
        Ref const content = take(PyBytes_FromStringAndSize(reinterpret_cast<char const*>(name.bytes.data()), static_cast<Py_ssize_t>(name.bytes.size())));
        Ref const no_buffers = take(PyList_New(0));
        entry.object = Ref(PyObject_CallFunctionObjArgs(globals().from_value, content.get(), no_buffers.get(), nullptr));
      } else {
        try {
          entry.object = import_name(name.text);
        } catch (Raised const&) {
        }
      }
      if (!entry.object) failed_here(cat("cannot load ", name.by_value ? std::string_view("a class or function by value") : name.text));
    }
    return entry.object.get();
  }

  PyObject* named(long role) { return named(reader_.count("name", limits::table_entries), role); }

  static PyTypeObject* as_class(PyObject* object, std::size_t at) {
    if (!PyType_Check(object)) Reader::fail_at(at, "a name that is no class, where an instance is to be made");
    return reinterpret_cast<PyTypeObject*>(object);
  }

  // ── Memo ───────────────────────────────────────────────────────────────────────────────────────────────

  static constexpr std::size_t unmarked = static_cast<std::size_t>(-1);

  std::size_t open(bool marked) {
    if (!marked) return unmarked;
    memo_.emplace_back();
    heights_.push_back(0);
    return memo_.size() - 1;
  }

  void remember(std::size_t number, PyObject* object) {
    if (number != unmarked) memo_[number] = Ref::borrow(object);
  }

  Ref remembered(std::size_t number, Ref object) {
    remember(number, object.get());
    return object;
  }

  // References let flat bytes build a chain of any length. Most objects are freed without recursion however long it is; the
  // others, and tuples, which are hashed recursively, would end the process, so their chains keep the limit of nesting.

  /// Whether freeing or hashing what holds this object stops here.
  static bool ends_chain(PyTypeObject* type) {
    if (type == &PyList_Type || type == &PyDict_Type || type == &PySet_Type || type == &PyFrozenSet_Type) return true;
    static void* const of_python_classes = [] {
      Ref const cls = take(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(){}", "Probe"));
      return PyType_GetSlot(reinterpret_cast<PyTypeObject*>(cls.get()), Py_tp_dealloc);
    }();
    return PyType_GetSlot(type, Py_tp_dealloc) == of_python_classes && PyType_IsSubtype(type, &PyTuple_Type) == 0;
  }

  [[gnu::noinline]] void measure(PyObject* object, std::size_t number, std::uint32_t around, std::size_t at) {
    std::uint32_t const height = ends_chain(Py_TYPE(object)) ? 0 : tallest_ + 1;
    if (height > chain_) Reader::fail_at(at, cat("a chain of references ", height, " long; at most ", chain_));
    if (memo_.size() > number && memo_[number].get() == object) heights_[number] = height;
    tallest_ = std::max(around, height);
  }

  // ── Nodes ──────────────────────────────────────────────────────────────────────────────────────────────

  Ref node() {
    std::size_t const at = reader_.offset();
    Token const token = reader_.next();
    switch (token.type) {
      case Type::nil: return Ref::borrow(Py_None);
      case Type::boolean: return Ref::borrow(token.boolean ? Py_True : Py_False);
      case Type::integer: return take(PyLong_FromLongLong(token.integer));
      case Type::big_unsigned: return take(PyLong_FromUnsignedLongLong(token.big_unsigned));
      case Type::real: return take(PyFloat_FromDouble(token.real));
      case Type::str: return text(token, at);
      case Type::bin: return bytes(token.bytes());
      default: break;
    }
    if (++depth_ > limits::depth || !stack_.room()) {
      Reader::fail_at(at, cat("nested ", depth_, " deep; at most ", limits::depth, ", or what this thread's stack holds"));
    }
    std::uint32_t const around = std::exchange(tallest_, 0);
    std::size_t const number = memo_.size();
    Ref object = token.type == Type::map ? dict(token.size, unmarked) : tagged(token.size, at);
    --depth_;
    measure(object.get(), number, around, at);
    return object;
  }

  [[gnu::noinline]] Ref text(Token const& token, std::size_t at) {
    PyObject* const object = PyUnicode_DecodeUTF8(reinterpret_cast<char const*>(token.data), static_cast<Py_ssize_t>(token.size), "strict");
    if (object == nullptr) {
      if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) throw Raised{};
      PyErr_Clear();
      Reader::fail_at(at, "str: invalid UTF-8");
    }
    return Ref(object);
  }

  /// A str of the bytes; `what` names the field where they are none.
  template <class What>
  static Ref text_of(std::string_view content, What const& what) {
    PyObject* const object = PyUnicode_DecodeUTF8(content.data(), static_cast<Py_ssize_t>(content.size()), "strict");
    if (object == nullptr) {
      if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) throw Raised{};
      PyErr_Clear();
      throw Error(ErrorKind::malformed, cat(what(), ": invalid UTF-8"));
    }
    return Ref(object);
  }

  static Ref bytes(std::span<std::byte const> content) {
    return take(PyBytes_FromStringAndSize(reinterpret_cast<char const*>(content.data()), static_cast<Py_ssize_t>(content.size())));
  }

  [[gnu::noinline]] Ref dict(std::size_t npairs, std::size_t number) {
    Ref dict = remembered(number, take(PyDict_New()));
    for (std::size_t i = 0; i < npairs; ++i) {
      std::size_t const at = reader_.offset();
      Ref const key = node();
      Ref const value = node();
      if (!PyUnicode_CheckExact(key.get())) settle();  // its hash may be a method
      if (PyDict_SetItem(dict.get(), key.get(), value.get()) < 0) failed(at, "dict key");
    }
    return dict;
  }

  [[gnu::noinline]] Ref tagged(std::size_t parts, std::size_t at) {
    if (parts == 0) Reader::fail_at(at, "an array without an op");
    auto const code = reader_.count("op", 0x7f);
    bool const marked = (code & mark) != 0;
    auto const op = static_cast<Op>(code & 0x3f);
    std::size_t const n = parts - 1;
    switch (op) {
      // What nests is here; the rest is apart, so that a level of nesting costs little stack.
      case Op::list: {
        std::size_t const number = open(marked);
        return filled_list(remembered(number, take(PyList_New(0))), n);
      }
      case Op::tuple: return tuple(n, open(marked));
      case Op::record: check_fields(op, n, 1, std::max<std::size_t>(n, 1), at); return record(n - 1, open(marked), at);
      case Op::object: check_fields(op, n, 1, std::max<std::size_t>(n, 1), at); return object(n - 1, open(marked), at);
      default: return rest(op, n, marked, at);
    }
  }

  [[gnu::noinline]] static void check_fields(Op op, std::size_t n, std::size_t least, std::size_t most, std::size_t at) {
    if (n >= least && n <= most) return;
    std::string const needed = least == most ? cat(least) : cat(least, " to ", most);
    Reader::fail_at(at, cat(to_string(op), ": ", n, " fields, ", needed, " are needed"));
  }

  [[gnu::noinline]] Ref tuple(std::size_t n, std::size_t number) {
    Ref tuple = take(PyTuple_New(static_cast<Py_ssize_t>(n)));
    for (std::size_t i = 0; i < n; ++i) check(PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), node().release()));
    return remembered(number, std::move(tuple));
  }

  [[gnu::noinline]] Ref rest(Op op, std::size_t n, bool marked, std::size_t at) {
    auto const exactly = [&](std::size_t wanted) { check_fields(op, n, wanted, wanted, at); };
    auto const between = [&](std::size_t least, std::size_t most) { check_fields(op, n, least, most, at); };
    auto const at_least = [&](std::size_t least) { check_fields(op, n, least, std::max(n, least), at); };
    switch (op) {
      case Op::ref: {
        exactly(1);
        if (marked) Reader::fail_at(at, "REF: a reference cannot be marked");
        auto const number = reader_.count("REF number", UINT32_MAX);
        if (number >= memo_.size()) Reader::fail_at(at, cat("REF: number ", number, ", only ", memo_.size(), " objects have begun"));
        if (!memo_[number]) Reader::fail_at(at, cat("REF: object ", number, " is referred to before it is complete"));
        tallest_ = heights_[number] == 0 ? 0 : heights_[number] - 1;
        return Ref::borrow(memo_[number].get());
      }
      case Op::value: {
        exactly(1);
        std::size_t const number = open(marked);
        if (reader_.next_is_map()) return dict(reader_.next().size, number);
        if (reader_.next_is_array()) Reader::fail_at(at, "VALUE: holds a tagged array");
        return remembered(number, node());
      }
      case Op::set: {
        std::size_t const number = open(marked);
        Ref set = remembered(number, take(PySet_New(nullptr)));
        fill_set(set.get(), n);
        return set;
      }
      case Op::frozenset: {
        std::size_t const number = open(marked);
        Ref list = filled_list(take(PyList_New(0)), n);
        settle();
        Ref set(PyFrozenSet_New(list.get()));
        if (!set) failed(at, "FROZENSET");
        return remembered(number, std::move(set));
      }
      case Op::name: {
        exactly(1);
        std::size_t const number = open(marked);
        return remembered(number, Ref::borrow(named(role::hand_on)));
      }
      case Op::reduce: {
        between(2, 6);
        std::size_t const number = open(marked);
        auto const index = reader_.count("name", limits::table_entries);
        PyObject* const function = named(index, role::call);
        Ref const args = arguments("REDUCE arguments");
        settle();
        Ref object(PyObject_Call(function, args.get(), nullptr));
        if (!object) failed(at, "REDUCE");
        if (n > 2) check_fresh(object.get(), index, at);
        return with_state(std::move(object), n - 2, number, index);
      }
      case Op::new_: {
        between(2, 6);
        std::size_t const number = open(marked);
        auto const index = reader_.count("name", limits::table_entries);
        PyTypeObject* const cls = as_class(named(index, role::make), at);
        Ref const args = arguments("NEW arguments");
        return with_state(make(cls, args.get(), nullptr, at), n - 2, number, index);
      }
      case Op::new_kw: {
        between(3, 7);
        std::size_t const number = open(marked);
        auto const index = reader_.count("name", limits::table_entries);
        PyTypeObject* const cls = as_class(named(index, role::make), at);
        Ref const args = arguments("NEW_KW arguments");
        Ref const kwargs = keyword_arguments();
        return with_state(make(cls, args.get(), kwargs.get(), at), n - 3, number, index);
      }
      case Op::adapted: {
        exactly(2);
        std::size_t const number = open(marked);
        auto const index = reader_.count("ADAPTED name", limits::table_entries);
        if (index >= names_.size() || !header_.names[index].is_wire_name()) Reader::fail_at(at, cat("ADAPTED: name ", index, " is no wire name"));
        Ref const value = node();
        trees_.place = at;
        if (!header_.names[index].text.starts_with("sklearn.")) settle();
        Ref object(PyObject_CallFunctionObjArgs(names_[index].object.get(), value.get(), nullptr));
        if (!object) failed(at, cat("adapter ", header_.names[index].text));
        return remembered(number, std::move(object));
      }
      case Op::bigint: {
        exactly(1);
        std::size_t const number = open(marked);
        Ref const content = bytes(reader_.bin("BIGINT"));
        static PyObject* const from_bytes = attr(reinterpret_cast<PyObject*>(&PyLong_Type), "from_bytes").release();
        Ref const args = take(Py_BuildValue("(Os)", content.get(), "little"));
        Ref const kwargs = take(Py_BuildValue("{sO}", "signed", Py_True));
        return remembered(number, take(PyObject_Call(from_bytes, args.get(), kwargs.get())));
      }
      case Op::complex: {
        exactly(2);
        std::size_t const number = open(marked);
        double const real = real_field("COMPLEX real");
        double const imag = real_field("COMPLEX imag");
        return remembered(number, take(PyComplex_FromDoubles(real, imag)));
      }
      case Op::text: {
        exactly(1);
        std::size_t const number = open(marked);
        auto const content = reader_.bin("TEXT");
        Ref object(PyUnicode_DecodeUTF8(reinterpret_cast<char const*>(content.data()), static_cast<Py_ssize_t>(content.size()), "surrogatepass"));
        if (!object) failed(at, "TEXT");
        return remembered(number, std::move(object));
      }
      case Op::bytes: {
        exactly(1);
        std::size_t const number = open(marked);
        return remembered(number, payload_as_bytes(reader_.count("BYTES payload", limits::table_entries)));
      }
      case Op::bytearray: {
        exactly(1);
        std::size_t const number = open(marked);
        Data const content = data("BYTEARRAY", false, 1);
        charge(content, at);
        return remembered(number, take(PyByteArray_FromStringAndSize(reinterpret_cast<char const*>(content.bytes.data()),
                                                                     static_cast<Py_ssize_t>(content.bytes.size()))));
      }
      case Op::memoryview: {
        exactly(4);
        std::size_t const number = open(marked);
        return remembered(number, memoryview(at));
      }
      case Op::slice: {
        exactly(3);
        std::size_t const number = open(marked);
        Ref const start = node();
        Ref const stop = node();
        Ref const step = node();
        return remembered(number, take(PySlice_New(start.get(), stop.get(), step.get())));
      }
      case Op::range: {
        exactly(3);
        std::size_t const number = open(marked);
        Ref const start = node();
        Ref const stop = node();
        Ref const step = node();
        Ref range(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PyRange_Type), start.get(), stop.get(), step.get(), nullptr));
        if (!range) failed(at, "RANGE");
        return remembered(number, std::move(range));
      }
      case Op::floats: {
        exactly(1);
        std::size_t const number = open(marked);
        return remembered(number, floats(at));
      }
      case Op::array: {
        between(3, 6);
        if (n == 5) Reader::fail_at(at, "ARRAY: strides without an offset");
        std::size_t const number = open(marked);
        return remembered(number, array(n, at));
      }
      case Op::object_array: {
        at_least(2);
        std::size_t const number = open(marked);
        return object_array(n - 2, number, at);
      }
      case Op::scalar: {
        exactly(2);
        std::size_t const number = open(marked);
        return remembered(number, scalar(at));
      }
      case Op::dtype: {
        exactly(1);
        std::size_t const number = open(marked);
        return remembered(number, dtype(true));
      }
      case Op::arrow: {
        at_least(2);
        std::size_t const number = open(marked);
        settle();
        return remembered(number, decode_arrow(reader_, n, header_, incoming_));
      }
      case Op::pickle: {
        at_least(1);
        if (!options_.pickle) {
          throw UntrustedName(cat(place_in_object(bytes_, header_, at), ": a pickle, and family pickle is not allowed here"));
        }
        std::size_t const number = open(marked);
        Data const content = data("PICKLE", false, 1);
        charge(content, at);
        Ref const pickled = bytes(content.bytes);
        Ref const buffers = filled_list(take(PyList_New(0)), n - 1);
        settle();
        Ref object(PyObject_CallFunctionObjArgs(globals().from_value, pickled.get(), buffers.get(), nullptr));
        if (!object) failed(at, "PICKLE");
        return remembered(number, std::move(object));
      }
      case Op::error: {
        exactly(1);
        throw Error(ErrorKind::failed, cat("the sender could not encode this object: ", reader_.str("ERROR text")));
      }
      case Op::last: {
        at_least(1);
        if (marked) Reader::fail_at(at, "LAST: cannot be marked");
        Ref object;
        for (std::size_t i = 0; i < n; ++i) object = node();
        return object;
      }
      case Op::list:
      case Op::tuple:
      case Op::record:
      case Op::object: break;  // read by tagged()
    }
    Reader::fail_at(at, cat("op ", static_cast<unsigned>(op), " is not known"));
  }

  // ── Containers ─────────────────────────────────────────────────────────────────────────────────────────

  [[gnu::noinline]] Ref filled_list(Ref list, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) check(PyList_Append(list.get(), node().get()));
    return list;
  }

  [[gnu::noinline]] void fill_set(PyObject* set, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t const at = reader_.offset();
      Ref const item = node();
      if (!PyUnicode_CheckExact(item.get())) settle();
      if (PySet_Add(set, item.get()) < 0) failed(at, "SET item");
    }
  }

  /// A shape as this process needs it, made at its first use.
  struct KnownShape {
    bool ready = false;
    std::vector<Ref> keys;
    PyTypeObject* cls = nullptr;
    newfunc make = nullptr;
    bool direct = false;     ///< each key can be set by PyObject_GenericSetAttr: the dict or a slot takes it
    bool has_setstate = false;
  };

  [[gnu::noinline]] KnownShape& shape(std::size_t nvalues, bool of_class, std::size_t at) {
    auto const index = reader_.count("shape", limits::table_entries);
    if (index >= shapes_.size()) Reader::fail_at(at, cat("shape ", index, " of ", shapes_.size()));
    ShapeEntry const& entry = header_.shapes[index];
    if (entry.cls.has_value() != of_class) Reader::fail_at(at, cat("shape ", index, of_class ? " has no class" : " has a class"));
    if (entry.keys.size() != nvalues) Reader::fail_at(at, cat("shape ", index, ": ", nvalues, " values, ", entry.keys.size(), " keys"));
    KnownShape& known = shapes_[index];
    if (known.ready) return known;
    for (std::string_view key : entry.keys) {
      PyObject* text = text_of(key, [&] { return cat("shape ", index, ": key ", known.keys.size()); }).release();
      PyUnicode_InternInPlace(&text);
      known.keys.emplace_back(text);
    }
    if (of_class) {
      known.cls = as_class(named(*entry.cls, role::make), at);
      known.make = reinterpret_cast<newfunc>(PyType_GetSlot(known.cls, Py_tp_new));
      if (known.make == nullptr) Reader::fail_at(at, cat("OBJECT: ", header_.names[*entry.cls].text, " cannot be instantiated"));
      auto* const cls = reinterpret_cast<PyObject*>(known.cls);
      known.has_setstate = static_cast<bool>(try_attr(cls, globals().dunder_setstate));
      known.direct = !known.has_setstate && keys_are_plain(cls, known.keys);
    }
    known.ready = true;
    return known;
  }

  /// Whether no key is caught by a data descriptor other than a slot's own, so that setting the attribute generically is
  /// the same as filling `__dict__`, which is what the protocol says.
  static bool keys_are_plain(PyObject* cls, std::vector<Ref> const& keys) {
    Globals const& g = globals();
    Ref const mro = attr(cls, g.dunder_mro);
    for (Ref const& key : keys) {
      for (Py_ssize_t i = 0; i < PyTuple_Size(mro.get()); ++i) {
        Ref const dict = attr(PyTuple_GetItem(mro.get(), i), g.dunder_dict);
        PyObject* const found = PyObject_GetItem(dict.get(), key.get());
        if (found == nullptr) {
          if (!PyErr_ExceptionMatches(PyExc_KeyError)) throw Raised{};
          PyErr_Clear();
          continue;
        }
        Ref const held(found);
        PyTypeObject* const type = Py_TYPE(found);
        bool const slot = reinterpret_cast<PyObject*>(type) == g.member_descriptor_type;
        if (!slot && PyType_GetSlot(type, Py_tp_descr_set) != nullptr) return false;
        break;
      }
    }
    return true;
  }

  [[gnu::noinline]] Ref record(std::size_t nvalues, std::size_t number, std::size_t at) {
    KnownShape const& known = shape(nvalues, false, at);
    Ref dict = remembered(number, take(PyDict_New()));
    for (Ref const& key : known.keys) check(PyDict_SetItem(dict.get(), key.get(), node().get()));
    return dict;
  }

  [[gnu::noinline]] Ref object(std::size_t nvalues, std::size_t number, std::size_t at) {
    KnownShape const& known = shape(nvalues, true, at);
    settle();
    Ref object(known.make(known.cls, globals().empty_tuple, nullptr));
    if (!object) failed(at, "OBJECT");
    remember(number, object.get());
    if (known.direct) {
      for (Ref const& key : known.keys) {
        if (PyObject_GenericSetAttr(object.get(), key.get(), node().get()) < 0) failed(at, "OBJECT attribute");
      }
      return object;
    }
    Ref state = take(PyDict_New());
    for (Ref const& key : known.keys) check(PyDict_SetItem(state.get(), key.get(), node().get()));
    if (known.has_setstate) {
      set_state(object.get(), state.get(), at);
      return object;
    }
    // A descriptor of the class has a key's name: fill the dict, and slots by their descriptors.
    Ref attributes = try_attr(object.get(), globals().dunder_dict);
    for (Ref const& key : known.keys) {
      PyObject* const value = dict_get(state.get(), key.get());
      Ref const descriptor = try_attr(reinterpret_cast<PyObject*>(known.cls), key.get());
      bool const slot = descriptor && reinterpret_cast<PyObject*>(Py_TYPE(descriptor.get())) == globals().member_descriptor_type;
      int const status = slot || !attributes ? PyObject_GenericSetAttr(object.get(), key.get(), value)
                                             : PyObject_SetItem(attributes.get(), key.get(), value);
      if (status < 0) failed(at, "OBJECT attribute");
    }
    return object;
  }

  // ── Construction ───────────────────────────────────────────────────────────────────────────────────────

  [[gnu::noinline]] Ref make(PyTypeObject* cls, PyObject* args, PyObject* kwargs, std::size_t at) {
    auto const make = reinterpret_cast<newfunc>(PyType_GetSlot(cls, Py_tp_new));
    if (make == nullptr) Reader::fail_at(at, "NEW: the class cannot be instantiated");
    settle();
    Ref object(make(cls, args, kwargs));
    if (!object) failed(at, "NEW");
    return object;
  }

  [[gnu::noinline]] Ref arguments(std::string_view field) {
    std::size_t const n = reader_.array(field);
    Ref tuple = take(PyTuple_New(static_cast<Py_ssize_t>(n)));
    for (std::size_t i = 0; i < n; ++i) check(PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), node().release()));
    return tuple;
  }

  [[gnu::noinline]] Ref keyword_arguments() {
    std::size_t const n = reader_.map("NEW_KW keyword arguments");
    Ref dict = take(PyDict_New());
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t const at = reader_.offset();
      std::string_view const key = reader_.str("NEW_KW keyword");
      check_utf8(key, at, "NEW_KW keyword");
      Ref const name = str(key);
      check(PyDict_SetItem(dict.get(), name.get(), node().get()));
    }
    return dict;
  }

  bool absent() {
    if (reader_.peek() != 0xc0) return false;
    reader_.skip();
    return true;
  }

  /// Members of an enumeration, singletons, cached objects and arguments handed back belong to others as well: state from
  /// the bytes would change them for the whole process, or change what was looked at already.
  void check_fresh(PyObject* object, std::size_t name, std::size_t at) const {
    if (Py_REFCNT(object) == 1 || options_.pickle || (names_[name].roles & role::any_state) != 0) return;
    Reader::fail_at(at, cat("REDUCE: ", header_.names[name].text, " gave an object that others hold; it takes no state"));
  }

  /// Items, pairs and state, in the order of the protocol; `fields` of the four are there.
  [[gnu::noinline]] Ref with_state(Ref object, std::size_t fields, std::size_t number, std::size_t name) {
    remember(number, object.get());
    std::size_t const at = reader_.offset();
    Ref state;
    if (fields >= 1 && !absent()) state = node();
    if (state && state.get() != Py_None && !options_.pickle && (names_[name].roles & role::any_state) == 0 && PyDict_Check(state.get()) == 0 &&
        PyTuple_Check(state.get()) == 0 && PyList_Check(state.get()) == 0) {
      // `"key" in state` of a range of 2**62 or of an array that shows one item so often does not end.
      Reader::fail_at(at, cat("state of a ", type_name(object.get()), ": a ", type_name(state.get()), ", not a dict, tuple or list"));
    }
    if (fields >= 2 && !absent()) append_items(object.get());
    if (fields >= 3 && !absent()) assign_pairs(object.get());
    if (fields >= 4 && !absent()) {
      PyObject* const setter = named(role::call);
      if (!state) state = Ref::borrow(Py_None);
      settle();
      if (!Ref(PyObject_CallFunctionObjArgs(setter, object.get(), state.get(), nullptr))) failed(at, "state setter");
    } else if (state && state.get() != Py_None) {
      set_state(object.get(), state.get(), at);
    }
    return object;
  }

  /// A class's own __getattr__ may fail otherwise than it should while there is no state.
  Ref method(PyObject* object, PyObject* name, std::size_t at) const {
    try {
      return try_attr(object, name);
    } catch (Raised const&) {
      failed(at, cat(utf8(name), " of ", type_name(object)));
    }
  }

  [[gnu::noinline]] void append_items(PyObject* object) {
    std::size_t const at = reader_.offset();
    Ref const items = filled_list(take(PyList_New(0)), reader_.array("items"));
    settle();
    Ref const extend = method(object, globals().extend, at);
    if (extend) {
      if (!Ref(PyObject_CallFunctionObjArgs(extend.get(), items.get(), nullptr))) failed(at, "items");
      return;
    }
    Ref const append = method(object, globals().append, at);
    if (!append) Reader::fail_at(at, cat("items for a ", type_name(object), ", which takes none"));
    for (Py_ssize_t i = 0; i < PyList_Size(items.get()); ++i) {
      if (!Ref(PyObject_CallFunctionObjArgs(append.get(), PyList_GetItem(items.get(), i), nullptr))) failed(at, "items");
    }
  }

  [[gnu::noinline]] void assign_pairs(PyObject* object) {
    std::size_t const at = reader_.offset();
    std::size_t const n = reader_.array("pairs");
    if (n % 2 != 0) Reader::fail_at(at, cat("pairs: ", n, " nodes, an even number is needed"));
    for (std::size_t i = 0; i < n; i += 2) {
      Ref const key = node();
      Ref const value = node();
      settle();
      if (PyObject_SetItem(object, key.get(), value.get()) < 0) failed(at, "pairs");
    }
  }

  [[gnu::noinline]] void set_state(PyObject* object, PyObject* state, std::size_t at) {
    Globals const& g = globals();
    Ref const setstate = method(object, g.dunder_setstate, at);
    if (setstate) {
      settle();
      if (!Ref(PyObject_CallFunctionObjArgs(setstate.get(), state, nullptr))) failed(at, cat("__setstate__ of ", type_name(object)));
      return;
    }
    PyObject* attributes = state;
    PyObject* slots = Py_None;
    if (PyTuple_Check(state) && PyTuple_Size(state) == 2) {
      attributes = PyTuple_GetItem(state, 0);
      slots = PyTuple_GetItem(state, 1);
    }
    if (attributes != Py_None) {
      if (!PyDict_Check(attributes)) Reader::fail_at(at, cat("state of a ", type_name(object), ": a ", type_name(attributes), " is no dict of attributes"));
      Ref const dict = try_attr(object, g.dunder_dict);
      if (!dict) Reader::fail_at(at, cat("state of a ", type_name(object), ", which has no attributes"));
      PyObject* key = nullptr;
      PyObject* value = nullptr;
      Py_ssize_t position = 0;
      while (PyDict_Next(attributes, &position, &key, &value) != 0) {
        PyObject* name = Ref::borrow(key).release();
        if (Py_TYPE(name) == &PyUnicode_Type) PyUnicode_InternInPlace(&name);
        Ref const held(name);
        if (PyObject_SetItem(dict.get(), name, value) < 0) failed(at, "state");
      }
    }
    if (slots != Py_None) {
      if (!PyDict_Check(slots)) Reader::fail_at(at, "state: the slots are no dict");
      PyObject* key = nullptr;
      PyObject* value = nullptr;
      Py_ssize_t position = 0;
      while (PyDict_Next(slots, &position, &key, &value) != 0) {
        if (!PyUnicode_Check(key)) Reader::fail_at(at, "state: a slot whose name is no str");
        if (!options_.pickle && PyUnicode_CompareWithASCIIString(key, "__class__") == 0) Reader::fail_at(at, "state: an object keeps its class");
        if (PyObject_SetAttr(object, key, value) < 0) failed(at, "state");
      }
    }
  }

  // ── Bytes ──────────────────────────────────────────────────────────────────────────────────────────────

  /// The content of a data field: bytes of the header, or of a payload inside its exporter.
  struct Data {
    std::span<std::byte const> bytes;
    PyObject* exporter = nullptr;
    std::uint64_t offset = 0;
    bool readonly = true;
    bool in_header = false;
  };

  Data data(std::string_view field, bool writable, std::size_t align) {
    std::size_t const at = reader_.offset();
    Token const token = reader_.next();
    if (token.type == Type::bin) return {.bytes = token.bytes(), .in_header = true};
    if (token.type != Type::integer || token.integer < 0) Reader::fail_at(at, cat(field, ": neither bytes nor a payload number"));
    Payload const payload = payload_at(static_cast<std::uint64_t>(token.integer), writable, align, at);
    return {.bytes = {payload.data, payload.nbytes}, .exporter = payload.exporter, .offset = payload.offset, .readonly = payload.readonly};
  }

  Payload payload_at(std::uint64_t p, bool writable, std::size_t align, std::size_t at) {
    if (p >= header_.sizes.size()) Reader::fail_at(at, cat("payload ", p, " of ", header_.sizes.size()));
    return incoming_.payload(p, writable, align);
  }

  /// A few bytes can name a large payload again and again; objects that copy it may not take more than there is.
  void charge(Data const& content, std::size_t at) {
    if (content.in_header) return;
    copied_ += content.bytes.size();
    if (copied_ > frames_nbytes_) {
      Reader::fail_at(at, cat("objects that copy their payloads take ", copied_, " bytes, the frames have ", frames_nbytes_));
    }
  }

  [[gnu::noinline]] Ref payload_as_bytes(std::uint64_t p) {
    std::size_t const at = reader_.offset();
    Payload const payload = payload_at(p, false, 1, at);
    charge({.bytes = {payload.data, payload.nbytes}}, at);
    // A frame that is a bytes object and nothing else is the object itself.
    if (payload.exporter != nullptr && PyBytes_CheckExact(payload.exporter) && payload.offset == 0 &&
        static_cast<std::uint64_t>(PyBytes_Size(payload.exporter)) == payload.nbytes) {
      return Ref::borrow(payload.exporter);
    }
    return bytes({payload.data, payload.nbytes});
  }

  double real_field(std::string_view field) {
    std::size_t const at = reader_.offset();
    Token const token = reader_.next();
    if (token.type != Type::real) Reader::fail_at(at, cat(field, ": no float"));
    return token.real;
  }

  [[gnu::noinline]] Ref floats(std::size_t at) {
    Data const content = data("FLOATS", false, 1);
    charge(content, at);
    if (content.bytes.size() % sizeof(double) != 0) Reader::fail_at(at, cat("FLOATS: ", content.bytes.size(), " bytes are no whole floats"));
    std::size_t const n = content.bytes.size() / sizeof(double);
    Ref list = take(PyList_New(static_cast<Py_ssize_t>(n)));
    for (std::size_t i = 0; i < n; ++i) {
      double value = 0;
      std::memcpy(&value, content.bytes.data() + i * sizeof(double), sizeof(double));
      check(PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), take(PyFloat_FromDouble(value)).release()));
    }
    return list;
  }

  std::vector<Py_ssize_t> shape_field(std::string_view field) {
    std::vector<Py_ssize_t> shape;
    if (!reader_.next_is_array()) {
      shape.push_back(static_cast<Py_ssize_t>(reader_.count(field, INT64_MAX)));
      return shape;
    }
    std::size_t const at = reader_.offset();
    std::size_t const n = reader_.array(field);
    if (n > limits::ndim) Reader::fail_at(at, cat(field, ": ", n, " dimensions, ", limits::ndim, " are the most"));
    for (std::size_t i = 0; i < n; ++i) shape.push_back(static_cast<Py_ssize_t>(reader_.count(field, INT64_MAX)));
    return shape;
  }

  /// Bytes that `shape` needs; fails instead of overflowing.
  static std::uint64_t nbytes_of(std::span<Py_ssize_t const> shape, std::uint64_t itemsize, std::size_t at) {
    std::uint64_t total = itemsize;
    for (Py_ssize_t const n : shape) {
      if (n == 0) return 0;
    }
    for (Py_ssize_t const n : shape) {
      if (total > limits::payload_nbytes / static_cast<std::uint64_t>(n)) Reader::fail_at(at, "shape: more bytes than a payload can have");
      total *= static_cast<std::uint64_t>(n);
    }
    return total;
  }

  [[gnu::noinline]] Ref memoryview(std::size_t at) {
    std::size_t const format_at = reader_.offset();
    std::string_view const format = reader_.str("MEMORYVIEW format");
    if (format.size() > 64) Reader::fail_at(format_at, "MEMORYVIEW format: too long");
    static PyObject* const calcsize = attr(import("struct").get(), "calcsize").release();
    Ref const text = text_of(format, [&] { return cat("header byte ", format_at, ": MEMORYVIEW format"); });
    Ref const size(PyObject_CallFunctionObjArgs(calcsize, text.get(), nullptr));
    if (!size) failed(at, "MEMORYVIEW format");
    Py_ssize_t const itemsize = PyLong_AsSsize_t(size.get());
    if (itemsize <= 0) Reader::fail_at(format_at, "MEMORYVIEW format: items without bytes");
    // The writable flag comes behind the bytes it speaks of.
    std::size_t const data_at = reader_.offset();
    reader_.skip();
    std::vector<Py_ssize_t> shape = shape_field("MEMORYVIEW shape");
    bool const readonly = reader_.boolean("MEMORYVIEW readonly");
    std::size_t const end = reader_.offset();
    reader_.seek(data_at);
    Data const content = data("MEMORYVIEW", !readonly, payload_align(static_cast<std::uint64_t>(itemsize)));
    reader_.seek(end);
    std::uint64_t const needed = nbytes_of(shape, static_cast<std::uint64_t>(itemsize), at);
    if (content.bytes.size() != needed) Reader::fail_at(at, cat("MEMORYVIEW: ", content.bytes.size(), " bytes, format and shape need ", needed));
    if (needed == 0) {
      // Python compares views row by row, and rows without bytes are vouched for by nothing.
      std::vector<Py_ssize_t> rows;
      std::copy_if(shape.begin(), shape.end(), std::back_inserter(rows), [](Py_ssize_t n) { return n > 0; });
      if (nbytes_of(rows, 1, at) > (std::uint64_t{1} << 20)) Reader::fail_at(at, "MEMORYVIEW: a million rows without bytes");
    }
    auto keeper = std::make_shared<Keeper>();
    std::byte const* memory = content.bytes.data();
    if (content.in_header) {
      std::byte* copy = nullptr;
      *keeper = Keeper::allocate(needed, copy);
      if (needed != 0) std::memcpy(copy, memory, needed);
      memory = copy;
    } else {
      keeper->object = Ref::borrow(content.exporter);
    }
    return make_view(std::move(keeper), memory, std::string(format), static_cast<std::size_t>(itemsize), std::move(shape), readonly);
  }

  // ── NumPy ──────────────────────────────────────────────────────────────────────────────────────────────

  struct KnownDtype {
    std::span<std::byte const> raw;
    Ref dtype;
    std::uint64_t itemsize = 0;
    std::size_t align = 1;
    bool is_void = false;
  };

  /// The raw dtype at the reader; equal bytes give the same object. Objects are only let through for DTYPE.
  KnownDtype const& known_dtype() {
    std::size_t const at = reader_.offset();
    if (last_dtype_ != nullptr && starts_with(last_dtype_->raw)) return *last_dtype_;
    for (auto const& known : dtypes_) {
      if (starts_with(known->raw)) return *(last_dtype_ = known.get());
    }
    auto known = std::make_unique<KnownDtype>();
    known->dtype = dtype(false);
    known->raw = reader_.since(at);
    static PyObject* const itemsize = intern("itemsize");
    static PyObject* const alignment = intern("alignment");
    static PyObject* const kind = intern("kind");
    known->is_void = utf8(attr(known->dtype.get(), kind).get()) == "V";
    known->itemsize = static_cast<std::uint64_t>(PyLong_AsSsize_t(attr(known->dtype.get(), itemsize).get()));
    known->align = static_cast<std::size_t>(PyLong_AsSsize_t(attr(known->dtype.get(), alignment).get()));
    if (dtypes_.size() < 64) {
      dtypes_.push_back(std::move(known));
      return *(last_dtype_ = dtypes_.back().get());
    }
    spare_dtype_ = std::move(known);
    last_dtype_ = nullptr;
    return *spare_dtype_;
  }

  /// Passes over `raw` when the reader stands before the same bytes; one msgpack value is never the beginning of another.
  bool starts_with(std::span<std::byte const> raw) {
    if (reader_.remaining() < raw.size()) return false;
    std::size_t const at = reader_.offset();
    if (std::memcmp(bytes_.data() + at, raw.data(), raw.size()) != 0) return false;
    reader_.seek(at + raw.size());
    return true;
  }

  Ref dtype(bool objects) {
    std::size_t const at = reader_.offset();
    try {
      return unpack_dtype(reader_, objects);
    } catch (Raised const&) {
      failed(at, "dtype");
    }
  }

  Ref shape_tuple(std::span<Py_ssize_t const> shape) {
    Ref tuple = take(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
    for (std::size_t i = 0; i < shape.size(); ++i) {
      check(PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), PyLong_FromSsize_t(shape[i])));
    }
    return tuple;
  }

  [[gnu::noinline]] Ref array(std::size_t nfields, std::size_t at) {
    KnownDtype const& dt = known_dtype();
    std::size_t const data_at = reader_.offset();
    reader_.skip();
    std::vector<Py_ssize_t> const shape = shape_field("ARRAY shape");
    unsigned const flags = nfields > 3 ? static_cast<unsigned>(reader_.count("ARRAY flags", 3)) : 0;
    bool const readonly = (flags & array_flags::readonly) != 0;
    std::vector<Py_ssize_t> strides;
    std::uint64_t offset = 0;
    if (nfields > 4) {
      std::size_t const n = reader_.array("ARRAY strides");
      if (n != shape.size()) Reader::fail_at(at, cat("ARRAY strides: ", n, " for ", shape.size(), " dimensions"));
      for (std::size_t i = 0; i < n; ++i) strides.push_back(static_cast<Py_ssize_t>(reader_.integer("ARRAY strides")));
      offset = reader_.count("ARRAY offset", limits::payload_nbytes);
    }
    std::size_t const end = reader_.offset();
    reader_.seek(data_at);
    Data const content = data("ARRAY data", !readonly, dt.align);
    reader_.seek(end);

    std::uint64_t const needed = nbytes_of(shape, dt.itemsize, at);
    // NumPy gives items without bytes one all the same; no payload vouches for their number.
    if (dt.itemsize == 0 && nbytes_of(shape, 1, at) > (std::uint64_t{1} << 20)) Reader::fail_at(at, "ARRAY: a million items without bytes");
    if (strides.empty() && nfields <= 4) {
      if (content.bytes.size() != needed) Reader::fail_at(at, cat("ARRAY: ", content.bytes.size(), " bytes, shape and dtype need ", needed));
    } else {
      check_window(shape, strides, offset, dt.itemsize, content.bytes.size(), at);
    }

    Numpy const& np = numpy();
    Ref const shape_object = shape.size() == 1 ? take(PyLong_FromSsize_t(shape[0])) : shape_tuple(shape);
    Ref const strides_object = strides.empty() ? Ref::borrow(Py_None) : shape_tuple(strides);
    static PyObject* const c_order = intern("C");
    static PyObject* const fortran_order = intern("F");
    PyObject* const order = (flags & array_flags::fortran) != 0 ? fortran_order : c_order;
    Ref exporter = Ref::borrow(content.exporter != nullptr ? content.exporter : Py_None);
    std::uint64_t at_offset = content.offset + offset;
    if (content.in_header) {
      std::byte* copy = nullptr;
      auto keeper = std::make_shared<Keeper>(Keeper::allocate(content.bytes.size(), copy));
      if (!content.bytes.empty()) std::memcpy(copy, content.bytes.data(), content.bytes.size());
      exporter = make_view(std::move(keeper), copy, "B", 1, {static_cast<Py_ssize_t>(content.bytes.size())}, false);
      at_offset = offset;
    }
    Ref const offset_object = take(PyLong_FromUnsignedLongLong(exporter.get() == Py_None ? 0 : at_offset));
    Ref array(PyObject_CallFunctionObjArgs(np.ndarray, shape_object.get(), dt.dtype.get(), exporter.get(), offset_object.get(),
                                           exporter.get() == Py_None ? Py_None : strides_object.get(), order, nullptr));
    if (!array) failed(at, "ARRAY");
    if (readonly && !(content.readonly && exporter.get() != Py_None && !content.in_header)) {
      static PyObject* const no = take(Py_BuildValue("{sO}", "write", Py_False)).release();
      Ref const setflags = attr(array.get(), globals().setflags);
      Ref const done = take(PyObject_Call(setflags.get(), globals().empty_tuple, no));
    }
    return array;
  }

  /// Every item that shape and strides reach must lie in the payload.
  static void check_window(std::span<Py_ssize_t const> shape, std::span<Py_ssize_t const> strides, std::uint64_t offset, std::uint64_t itemsize,
                           std::uint64_t nbytes, std::size_t at) {
    for (Py_ssize_t const n : shape) {
      if (n == 0) return;
    }
    Wide low = static_cast<Wide>(offset);
    Wide high = low + static_cast<Wide>(itemsize);
    for (std::size_t i = 0; i < shape.size(); ++i) {
      Wide const reach = static_cast<Wide>(shape[i] - 1) * strides[i];
      (reach < 0 ? low : high) += reach;
      if (low < 0 || high > static_cast<Wide>(nbytes)) {
        Reader::fail_at(at, cat("ARRAY: shape and strides pass the payload's ", nbytes, " bytes in dimension ", i));
      }
    }
    if (high > static_cast<Wide>(nbytes)) Reader::fail_at(at, cat("ARRAY: the offset passes the payload's ", nbytes, " bytes"));
  }

  [[gnu::noinline]] Ref object_array(std::size_t nitems, std::size_t number, std::size_t at) {
    std::vector<Py_ssize_t> const shape = shape_field("OBJECT_ARRAY shape");
    auto const flags = reader_.count("OBJECT_ARRAY flags", 3);
    if (nbytes_of(shape, 1, at) != nitems) Reader::fail_at(at, cat("OBJECT_ARRAY: ", nitems, " items, the shape needs ", nbytes_of(shape, 1, at)));
    Numpy const& np = numpy();
    Ref const shape_object = shape_tuple(shape);
    Ref const order = str((flags & array_flags::fortran) != 0 ? "F" : "C");
    Ref array(PyObject_CallFunctionObjArgs(np.empty, shape_object.get(), np.object_dtype, order.get(), nullptr));
    if (!array) failed(at, "OBJECT_ARRAY");
    remember(number, array.get());
    {
      // The array is ours alone until it is returned, except for objects inside that refer to it; its memory stays where it is.
      BufferView const view(array.get(), PyBUF_STRIDES);
      auto* const slots = static_cast<PyObject**>(view->buf);
      for (std::size_t i = 0; i < nitems; ++i) {
        Ref item = node();
        PyObject* const old = slots[i];
        slots[i] = item.release();
        Py_XDECREF(old);
      }
    }
    if ((flags & array_flags::readonly) != 0) {
      Ref const kwargs = take(Py_BuildValue("{sO}", "write", Py_False));
      Ref const setflags = attr(array.get(), globals().setflags);
      Ref const done = take(PyObject_Call(setflags.get(), globals().empty_tuple, kwargs.get()));
    }
    tallest_ += 7;  // NumPy frees a level in 2 KB of stack
    return array;
  }

  [[gnu::noinline]] Ref scalar(std::size_t at) {
    KnownDtype const& dt = known_dtype();
    auto const content = reader_.bin("SCALAR");
    if (content.size() != dt.itemsize) Reader::fail_at(at, cat("SCALAR: ", content.size(), " bytes, the dtype needs ", dt.itemsize));
    // Structured scalars look into their array's memory and can be written to.
    Ref const buffer = dt.is_void ? take(PyByteArray_FromStringAndSize(reinterpret_cast<char const*>(content.data()), static_cast<Py_ssize_t>(content.size())))
                                  : bytes(content);
    Ref const shape = take(PyTuple_New(0));
    Ref const array(content.empty() ? PyObject_CallFunctionObjArgs(numpy().ndarray, shape.get(), dt.dtype.get(), nullptr)
                                    : PyObject_CallFunctionObjArgs(numpy().ndarray, shape.get(), dt.dtype.get(), buffer.get(), nullptr));
    if (!array) failed(at, "SCALAR");
    return take(PyObject_GetItem(array.get(), shape.get()));
  }

  // ── Errors ─────────────────────────────────────────────────────────────────────────────────────────────

  /// What a class or function of this process said to the values in the bytes: malformed, with its own error as the cause.
  [[noreturn]] void failed(std::size_t at, std::string const& what) const {
    if (PyErr_Occurred() == nullptr) Reader::fail_at(at, what);
    // Not an opinion about the bytes.
    if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError) || PyErr_ExceptionMatches(PyExc_Warning)) throw Raised{};
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace != nullptr) PyException_SetTraceback(value, trace);
    Ref const hold_type(type), hold_trace(trace);
    Ref cause(value);
    PyObject* const malformed = dict_get(globals().errors, take(PyUnicode_FromString("malformed")).get());
    // One of ours from further down already says where.
    if (PyErr_GivenExceptionMatches(cause.get(), malformed) != 0) {
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(cause.get())), cause.get());
      throw Raised{};
    }
    Ref const said(PyObject_Str(cause.get()));
    if (!said) PyErr_Clear();
    std::string const text = cat("header byte ", at, " (", place_in_object(bytes_, header_, at), "): ", what, ": ", type_name(cause.get()), ": ",
                                 said ? lossy_utf8(said.get()) : std::string("?"));
    Ref const error = take(PyObject_CallFunctionObjArgs(malformed, lossy_str(text).get(), nullptr));
    PyException_SetCause(error.get(), cause.release());
    PyErr_SetObject(malformed, error.get());
    throw Raised{};
  }

  [[noreturn]] void failed_here(std::string const& what) const { failed(reader_.offset() == 0 ? 0 : reader_.offset() - 1, what); }

  std::span<std::byte const> bytes_;
  DecodeOptions options_;
  Header header_;
  Reader reader_;
  Incoming incoming_;
  StackGuard stack_;
  TreeChecks trees_;
  std::size_t depth_ = 0;
  std::vector<Named> names_;
  std::vector<KnownShape> shapes_;
  std::vector<Ref> memo_;
  std::vector<std::uint32_t> heights_;  ///< of the same numbers: objects that are freed or hashed inside one another
  std::uint32_t tallest_ = 0;           ///< of the children of the node that is being read
  std::uint32_t chain_ = static_cast<std::uint32_t>(stack_.levels(512, limits::depth));
  std::uint64_t frames_nbytes_ = 0;
  std::uint64_t copied_ = 0;            ///< by objects that do not lie in the frames
  std::vector<std::unique_ptr<KnownDtype>> dtypes_;
  std::unique_ptr<KnownDtype> spare_dtype_;
  KnownDtype const* last_dtype_ = nullptr;
};

}  // namespace

Ref decode(std::span<std::byte const> header, PyObject* frames, DecodeOptions options) { return Decoder(header, frames, options).run(); }

}  // namespace transload::py
