#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "arrow.hpp"
#include "bounds.hpp"
#include "device.hpp"
#include "frames.hpp"
#include "globals.hpp"
#include "graph.hpp"
#include "numpy.hpp"
#include "process.hpp"
#include "trees.hpp"
#include "transload/adapters/place.hpp"
#include "transload/base/error.hpp"
#include "transload/memory/cuda.hpp"
#include "transload/base/limits.hpp"
#include "transload/memory/fresh.hpp"
#include "transload/message/header.hpp"
#include "transload/message/op.hpp"

namespace transload::py {

namespace {

using msgpack::Reader;
using msgpack::Token;
using msgpack::Type;

__extension__ using Wide = __int128;  // offsets and strides from outside cannot overflow it

class Decoder {
 public:
  Decoder(std::span<std::byte const> bytes, PyObject* frames, DecodeOptions options)
      : bytes_(bytes), options_(options), header_(Header::parse(bytes, count(frames))), reader_(bytes), incoming_(header_, frames, options.most_nbytes) {
    reader_.seek(header_.root_offset);
    names_.resize(header_.names.size());
    shapes_.resize(header_.shapes.size());
    table_dtypes_.resize(header_.dtypes.size());
    table_objects_.resize(header_.dtypes.size());
    trees_.trusting = options_.names;
    for (std::uint64_t const n : header_.layout.frame_nbytes) frames_nbytes_ += n;
    allowance_ = Allowance(bytes.size(), frames_nbytes_, options_.names);
  }
  Decoder(Decoder const&) = delete;
  Decoder& operator=(Decoder const&) = delete;

  Ref run() {
    if (!options_.host) check_root();
    check_names();
    CollectorPaused const paused;
    Running const running(*this);
    Ref object = node();
    if (!reader_.done()) reader_.fail_here("the root node ends before the header does");
    settle();
    return object;
  }

  /// Counts what a stand-in or an adapter copies of parts that may be referred to again; those of the innermost decode on this thread.
  static void charge_copy(std::uint64_t nbytes) {
    if (current_ != nullptr) current_->charge_made(nbytes);
  }

  /// Pays for the hashes of the elements of a list, tuple, dict or set that a stand-in is about to hash.
  static void charge_keys(PyObject* keys) {
    if (current_ == nullptr || current_->allowance_.unlimited()) return;
    KeyHashes hashes;
    Ref const iterator = take(PyObject_GetIter(keys));
    while (Ref const key{PyIter_Next(iterator.get())}) current_->look_at_key(key.get(), 0, hashes, current_->reader_.offset(), "keys");
    if (PyErr_Occurred() != nullptr) throw Raised{};
  }

 private:
  /// Stand-ins and adapters find their decoder by the thread: they may decode another message meanwhile.
  class Running {
   public:
    explicit Running(Decoder& decoder) : outer_(std::exchange(current_, &decoder)) {}
    Running(Running const&) = delete;
    Running& operator=(Running const&) = delete;
    ~Running() { current_ = outer_; }

   private:
    Decoder* outer_;
  };

  void charge_made(std::uint64_t nbytes) {
    made_ += std::min<std::uint64_t>(nbytes, limits::payload_nbytes);
    std::uint64_t const most = 2 * (bytes_.size() + frames_nbytes_) + (std::uint64_t{64} << 10);
    if (made_ > most && !options_.names) {
      reader_.fail_here(cat("objects that copy what they are made of take ", made_, " bytes or items, the message has ", bytes_.size() + frames_nbytes_));
    }
  }

  /// Code that is not known to leave trees alone may run next: those that came so far must have been looked at.
  void settle() {
    if (!late_.empty() && foreign()) {
      if (looks_ += late_.size(); looks_ > most_looks) Reader::fail_at(late_.back().at, "too many objects inside lists that they hold themselves");
      look_again();
    }
    if (!trees_.pending()) return;
    auto const failure = trees_.settle();
    if (!failure) return;
    try {
      std::rethrow_exception(failure->what);
    } catch (std::bad_alloc const&) {
      throw;
    } catch (std::exception const& error) {
      Reader::fail_at(failure->place, cat(place_in_object(bytes_, header_, failure->place), ": ", error.what()));
    }
  }

  // What an adapter looked at may hold a list that is still being read, by a reference to it from inside. It is looked at again when nothing can
  // grow any more, and before code that this process added runs on it.

  struct Late {
    Ref object;
    Ref check;
    std::size_t at = 0;
  };
  static constexpr std::size_t most_looks = 1 << 16;  ///< before foreign code; each may be as long as the message

  void look_again() {
    for (Late const& late : late_) {
      if (!Ref(PyObject_CallFunctionObjArgs(late.check.get(), late.object.get(), nullptr))) failed(late.at, "looked at again");
    }
  }

  /// The object `number` is complete, and with it all that began in it.
  [[gnu::noinline]] void closed(std::size_t number) {
    if (number != lowest_open_) return;
    lowest_open_ = unmarked;
    looks_ = 0;
    if (!late_.empty()) look_again();
    late_.clear();
  }

  /// An adapter made `object` while something that began before it was referred to and is not complete.
  [[gnu::noinline]] void look_later(PyObject* decode, PyObject* object, std::size_t at) {
    static PyObject* const name = intern("check");
    if (Ref check = try_attr(decode, name)) late_.push_back({Ref::borrow(object), std::move(check), at});
  }

  /// Whether the message names anything that this process added to what it trusts.
  bool foreign() {
    if (options_.names) return false;
    if (!foreign_) {
      foreign_ = std::any_of(names_.begin(), names_.end(), [](Named const& named) {
        if ((named.roles & role::any_state) != 0) return true;
        if (named.roles != 0 || !named.object) return false;
        Ref const module = try_attr(named.object.get(), globals().dunder_module);
        return !module || !PyUnicode_Check(module.get()) || !utf8(module.get()).starts_with("transload.");
      });
    }
    return *foreign_;
  }

  /// A header cannot ask for more frames than came.
  static std::size_t count(PyObject* frames) {
    Py_ssize_t const n = PyObject_Size(frames);
    if (n < 0) throw Raised{};
    return static_cast<std::size_t>(n);
  }

  /// Who does not take family host takes a pickle of the whole, or the error that there is none.
  void check_root() {
    msgpack::Reader root = reader_;
    if (root.next_is_array()) {
      (void)root.next();
      auto const op = static_cast<Op>(root.count("op", 0x7f) & 0x3f);
      if (op == Op::pickle || op == Op::error) return;
    }
    throw UntrustedName("obj: family host, which is not allowed here");
  }

  // ── Names ──────────────────────────────────────────────────────────────────────────────────────────────

  struct Named {
    long roles = 0;
    Ref object;   ///< once asked for
    Ref stand_in;  ///< what is called in its place, if anything is
    Ref text;     ///< str, for names that are no pickles
    Ref classes;      ///< of an adapter for arrays of a GPU that are made here: callable, what DeviceArrays takes
    Ref state_check;  ///< what looks at a state before the object gets it, if anything does
    bool looked_for_check = false;
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
        static PyObject* const classes = intern("classes");
        if (reinterpret_cast<PyObject*>(Py_TYPE(decode)) == globals().function_type && options_.device != host_twin) named.classes = try_attr(decode, classes);
        continue;
      }
      if (entry.text.find("<locals>") != std::string_view::npos || entry.text.find(':') == 0 || entry.text.back() == ':') {
        refuse(i, cat("the name ", entry.text, " names nothing"), "");
      }
      named.roles = trusted_roles(named.text.get());
      if (named.roles == 0) {
        if (!options_.names) {
          refuse(i, cat(entry.text, " is not on the trust list"), cat("; transload.trust(\"", entry.text, "\") puts it there"));
        }
        named.roles = role::make | role::call | role::hand_on;
      } else if (options_.names) {
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
    // A class that is handed on or made is itself; only calls go to the one that looks first, and only where bytes may not call at will.
    if (role == role::call && !name.by_value && !options_.names) {
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

  /// Whether the bytes choose among what transload's own list allows, and not what this process put there itself.
  [[nodiscard]] bool guarded(std::size_t name) const { return !options_.names && (names_[name].roles & role::any_state) == 0; }

  /// What looks at the state of objects of this name, or null.
  PyObject* state_check(std::size_t name) {
    if (!guarded(name)) return nullptr;
    Named& entry = names_[name];
    if (!entry.looked_for_check) {
      run_lazy_importer(header_.names[name].text);  // it may bring one
      entry.state_check = Ref::borrow(dict_get(globals().state_checks, entry.text.get()));
      entry.looked_for_check = true;
    }
    return entry.state_check.get();
  }

  static PyTypeObject* as_class(PyObject* object, std::size_t at) {
    if (!PyType_Check(object)) Reader::fail_at(at, "a name that is no class, where an instance is to be made");
    return reinterpret_cast<PyTypeObject*>(object);
  }

  // ── Memo ───────────────────────────────────────────────────────────────────────────────────────────────

  static constexpr std::size_t unmarked = static_cast<std::size_t>(-1);

  std::size_t open(bool marked) {
    if (!marked) return unmarked;
    if (memo_.empty()) memo_.reserve(32);  // growing from one on costs a small message a third
    memo_.emplace_back();
    return memo_.size() - 1;
  }

  void remember(std::size_t number, PyObject* object) {
    if (number != unmarked) memo_[number].object = Ref::borrow(object);
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
    static void* of_python_classes = nullptr;
    if (of_python_classes == nullptr) [[unlikely]] {
      Ref const cls = take(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(){}", "Probe"));
      of_python_classes = PyType_GetSlot(reinterpret_cast<PyTypeObject*>(cls.get()), Py_tp_dealloc);
    }
    return PyType_GetSlot(type, Py_tp_dealloc) == of_python_classes && PyType_IsSubtype(type, &PyTuple_Type) == 0;
  }

  /// How far an object reaches.
  struct Extent {
    std::uint32_t height = 0;  ///< of the chain of objects that are freed or hashed inside one another
    std::uint64_t parts = 0;   ///< elements, each as often as it is referred to
  };

  [[gnu::noinline]] void measure(PyObject* object, std::size_t number, Extent around, std::size_t nelems, std::size_t at) {
    std::uint32_t const height = ends_chain(Py_TYPE(object)) ? 0 : reached_.height + 1;
    if (height > chain_) Reader::fail_at(at, cat("a chain of references ", height, " long; at most ", chain_));
    std::uint64_t const parts = std::min(reached_.parts + nelems, most_parts);
    if (memo_.size() > number && memo_[number].object.get() == object) {
      memo_[number].extent = {.height = height, .parts = parts};
      memo_[number].open = false;
      if (lowest_open_ != unmarked) closed(number);
    }
    reached_ = {.height = std::max(around.height, height), .parts = std::min(around.parts + parts, most_parts)};
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
    if (++depth_ > limits::depth || !stack_.room()) too_deep(at);
    Extent const around = std::exchange(reached_, Extent{});
    std::size_t const number = memo_.size();
    Ref object = token.type == Type::map ? dict(token.size, unmarked) : tagged(token.size, at);
    --depth_;
    measure(object.get(), number, around, token.size, at);
    return object;
  }

  [[noreturn, gnu::noinline]] void too_deep(std::size_t at) const {
    Reader::fail_at(at, cat("nested ", depth_, " deep; at most ", limits::depth, ", or what this thread's stack holds"));
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
    if (content.size() < large_nbytes) {
      return take(PyBytes_FromStringAndSize(reinterpret_cast<char const*>(content.data()), static_cast<Py_ssize_t>(content.size())));
    }
    Ref object = take(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(content.size())));
    fill_fresh(PyBytes_AsString(object.get()), content);
    return object;
  }

  /// From this size on an object of Python's own is filled without the interpreter's lock: nobody else has it yet.
  static constexpr std::size_t large_nbytes = std::size_t{1} << 20;

  static void fill_fresh(char* to, std::span<std::byte const> content) {
    std::span<std::byte> const memory{reinterpret_cast<std::byte*>(to), content.size()};
    if (content.size() < large_nbytes) {
      if (!content.empty()) std::memcpy(to, content.data(), content.size());
      return;
    }
    Released const released;
    copy_to_fresh(memory, content);
  }

  [[gnu::noinline]] Ref dict(std::size_t npairs, std::size_t number) {
    Ref dict = remembered(number, take(PyDict_New()));
    KeyHashes hashes;
    for (std::size_t i = 0; i < npairs; ++i) {
      std::size_t const at = reader_.offset();
      Ref const key = key_node(hashes, "dict key");
      Ref const value = node();
      if (!PyUnicode_CheckExact(key.get())) settle();  // its hash may be a method
      if (PyDict_SetItem(dict.get(), key.get(), value.get()) < 0) failed(at, "dict key");
    }
    return dict;
  }

  /// A node that is a key, or an element of a set: what its hash costs is paid for.
  Ref key_node(KeyHashes& hashes, std::string_view what) {
    std::size_t const at = reader_.offset();
    std::uint64_t const before = reached_.parts;
    Ref key = node();
    PyTypeObject* const type = Py_TYPE(key.get());
    if (type != &PyUnicode_Type && type != &PyBytes_Type && type != &PyFloat_Type) look_at_key(key.get(), reached_.parts - before, hashes, at, what);
    return key;
  }

  [[gnu::noinline]] void look_at_key(PyObject* key, std::uint64_t parts, KeyHashes& hashes, std::size_t at, std::string_view what) {
    if (allowance_.unlimited() || key == Py_None) return;
    if (PyLong_Check(key) != 0) {
      int overflow = 0;
      (void)PyLong_AsLongLongAndOverflow(key, &overflow);
      if (overflow == 0) return;  // few of 64 bits have one hash
    }
    allowance_.spend(parts, at, what);
    if (PyMemoryView_Check(key) != 0) allowance_.spend(weight(key, 0), at, what);
    settle();
    Py_hash_t const hash = PyObject_Hash(key);
    if (hash == -1 && PyErr_Occurred() != nullptr) failed(at, std::string(what));
    hashes.add(hash, allowance_, at);
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
      case Op::set: return set(n, open(marked));
      case Op::frozenset: return frozenset(n, open(marked));
      case Op::reduce: check_fields(op, n, 2, 6, at); return reduce(n, open(marked), at);
      case Op::new_: check_fields(op, n, 2, 6, at); return new_object(n, open(marked), at, false);
      case Op::new_kw: check_fields(op, n, 3, 7, at); return new_object(n, open(marked), at, true);
      case Op::adapted: check_fields(op, n, 2, 2, at); return adapted(open(marked), at);
      case Op::object_array: check_fields(op, n, 2, std::max<std::size_t>(n, 2), at); return object_array(n - 2, open(marked), at);
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

  [[gnu::noinline]] Ref set(std::size_t n, std::size_t number) {
    Ref set = remembered(number, take(PySet_New(nullptr)));
    fill_set(set.get(), n);
    return set;
  }

  [[gnu::noinline]] Ref frozenset(std::size_t n, std::size_t number) {
    Ref set = take(PyFrozenSet_New(nullptr));
    fill_set(set.get(), n);
    return remembered(number, std::move(set));
  }

  /// What a call, or `cls.__new__`, made, and under which name.
  struct Made {
    Ref object;
    std::uint64_t name;
  };

  [[gnu::noinline]] Ref reduce(std::size_t n, std::size_t number, std::size_t at) {
    Made made = called(n, at);
    return with_state(std::move(made.object), n - 2, number, made.name);
  }

  [[gnu::noinline]] Made called(std::size_t n, std::size_t at) {
    auto const index = reader_.count("name", limits::table_entries);
    PyObject* const function = named(index, role::call);
    Ref const args = arguments("REDUCE arguments", index, at);
    settle();
    Ref object(PyObject_Call(function, args.get(), nullptr));
    if (!object) failed(at, "REDUCE");
    if (n > 2) check_fresh(object.get(), index, at);
    return {std::move(object), index};
  }

  [[gnu::noinline]] Ref new_object(std::size_t n, std::size_t number, std::size_t at, bool with_keywords) {
    Made made = newly_made(at, with_keywords);
    return with_state(std::move(made.object), n - (with_keywords ? 3 : 2), number, made.name);
  }

  [[gnu::noinline]] Made newly_made(std::size_t at, bool with_keywords) {
    auto const index = reader_.count("name", limits::table_entries);
    PyTypeObject* const cls = as_class(named(index, role::make), at);
    Ref const args = arguments(with_keywords ? "NEW_KW arguments" : "NEW arguments", index, at);
    Ref const kwargs = with_keywords ? keyword_arguments(index, at) : Ref{};
    return {make(cls, args.get(), kwargs.get(), at), index};
  }

  [[gnu::noinline]] Ref adapted(std::size_t number, std::size_t at) {
    auto const index = reader_.count("ADAPTED name", limits::table_entries);
    if (index >= names_.size() || !header_.names[index].is_wire_name()) not_a_wire_name(index, at);
    Named const& adapter = names_[index];
    Ref object = adapter.classes ? device_array(adapter.classes.get(), index, at) : Ref();
    if (object) return remembered(number, std::move(object));
    object = decoded(node(), index, at);
    if (lowest_open_ != unmarked) look_later(names_[index].object.get(), object.get(), at);
    return remembered(number, std::move(object));
  }

  [[gnu::noinline]] Ref decoded(Ref value, std::uint64_t name, std::size_t at) {
    check_attributes(value.get(), at);
    if (!allowance_.unlimited()) allowance_.spend(weight(value.get(), 3), at, header_.names[name].text);
    trees_.place = at;
    if (!header_.names[name].text.starts_with("sklearn.")) settle();
    Ref object(PyObject_CallFunctionObjArgs(names_[name].object.get(), value.get(), nullptr));
    if (!object) failed(at, cat("adapter ", header_.names[name].text));
    return object;
  }

  [[noreturn, gnu::noinline]] static void not_a_wire_name(std::uint64_t index, std::size_t at) {
    Reader::fail_at(at, cat("ADAPTED: name ", index, " is no wire name"));
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
        Remembered const& remembered = memo_[number];
        if (!remembered.object) Reader::fail_at(at, cat("REF: object ", number, " is referred to before it is complete"));
        if (remembered.open) lowest_open_ = std::min(lowest_open_, static_cast<std::size_t>(number));
        reached_ = {.height = remembered.extent.height == 0 ? 0 : remembered.extent.height - 1, .parts = remembered.extent.parts};
        return Ref::borrow(remembered.object.get());
      }
      case Op::value: {
        exactly(1);
        std::size_t const number = open(marked);
        if (reader_.next_is_map()) return dict(reader_.next().size, number);
        if (reader_.next_is_array()) Reader::fail_at(at, "VALUE: holds a tagged array");
        return remembered(number, node());
      }
      case Op::name: {
        exactly(1);
        std::size_t const number = open(marked);
        return remembered(number, Ref::borrow(named(role::hand_on)));
      }
      case Op::bigint: {
        exactly(1);
        std::size_t const number = open(marked);
        return remembered(number, big_integer(reader_.bin("BIGINT")));
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
        Ref bytearray = take(PyByteArray_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(content.bytes.size())));
        fill_fresh(PyByteArray_AsString(bytearray.get()), content.bytes);
        return remembered(number, std::move(bytearray));
      }
      case Op::device: {
        exactly(2);
        std::size_t const number = open(marked);
        return remembered(number, device_memory(at));
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
      case Op::set:
      case Op::frozenset:
      case Op::record:
      case Op::object:
      case Op::reduce:
      case Op::new_:
      case Op::new_kw:
      case Op::adapted:
      case Op::object_array: break;  // read by tagged()
    }
    Reader::fail_at(at, cat("op ", static_cast<unsigned>(op), " is not known"));
  }

  /// Two's complement, little-endian. A few words are put together here; a call of `from_bytes` costs as much as twenty of them.
  [[gnu::noinline]] Ref big_integer(std::span<std::byte const> content) {
    constexpr std::size_t word = sizeof(std::uint64_t);
    std::size_t const n = content.size() / word;
    reached_.parts += n;
    if (content.size() > 16 * word || n == 0) return from_bytes(content);
    bool const negative = (content.back() & std::byte{0x80}) != std::byte{};
    std::int64_t high = negative ? -1 : 0;
    std::memcpy(&high, content.data() + n * word, content.size() % word);
    Ref value = take(PyLong_FromLongLong(high));
    for (std::size_t i = n; i-- > 0;) {
      std::uint64_t low = 0;
      std::memcpy(&low, content.data() + i * word, word);
      Ref const shifted = take(PyNumber_Lshift(value.get(), globals().sixty_four));
      value = take(PyNumber_Or(shifted.get(), take(PyLong_FromUnsignedLongLong(low)).get()));
    }
    return value;
  }

  static Ref from_bytes(std::span<std::byte const> content) {
    static constinit Once known;
    PyObject* const function = known([] { return attr(reinterpret_cast<PyObject*>(&PyLong_Type), "from_bytes"); });
    Ref const args = take(Py_BuildValue("(Os)", bytes(content).get(), "little"));
    Ref const kwargs = take(Py_BuildValue("{sO}", "signed", Py_True));
    return take(PyObject_Call(function, args.get(), kwargs.get()));
  }

  // ── Containers ─────────────────────────────────────────────────────────────────────────────────────────

  [[gnu::noinline]] Ref filled_list(Ref list, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) check(PyList_Append(list.get(), node().get()));
    return list;
  }

  [[gnu::noinline]] void fill_set(PyObject* set, std::size_t n) {
    KeyHashes hashes;
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t const at = reader_.offset();
      Ref const item = key_node(hashes, "SET item");
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
    bool looked_at = false;  ///< the whole state is, before it is set
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
      for (Ref const& key : known.keys) {
        for (PyObject* name : memory_names()) {
          if (!options_.names && PyUnicode_Compare(key.get(), name) == 0) refuse_address(name, at);
        }
      }
      known.cls = as_class(named(*entry.cls, role::make), at);
      known.make = reinterpret_cast<newfunc>(PyType_GetSlot(known.cls, Py_tp_new));
      if (known.make == nullptr) Reader::fail_at(at, cat("OBJECT: ", header_.names[*entry.cls].text, " cannot be instantiated"));
      auto* const cls = reinterpret_cast<PyObject*>(known.cls);
      known.has_setstate = static_cast<bool>(try_attr(cls, globals().dunder_setstate));
      known.looked_at = state_check(*entry.cls) != nullptr;
      known.direct = !known.has_setstate && !known.looked_at && keys_are_plain(cls, known.keys);
      if (guarded(*entry.cls)) {
        for (Ref const& key : known.keys) refuse_at(at, why_no_attribute(known.cls, key.get()));
      }
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
    std::size_t const name = *header_.shapes[static_cast<std::size_t>(&known - shapes_.data())].cls;
    if (known.looked_at) look_at_state(known.cls, state.get(), name, at);
    if (known.has_setstate) {
      set_state(object.get(), state.get(), guarded(name), at);
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

  [[gnu::noinline]] Ref arguments(std::string_view field, std::size_t name, std::size_t at) {
    std::size_t const n = reader_.array(field);
    std::uint64_t const before = reached_.parts;
    Ref tuple = take(PyTuple_New(static_cast<Py_ssize_t>(n)));
    for (std::size_t i = 0; i < n; ++i) check(PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), node().release()));
    pay_for_arguments(tuple.get(), before, name, at);
    return tuple;
  }

  /// Functions of the list copy, hash and print what they are given, but for those that keep it.
  void pay_for_arguments(PyObject* given, std::uint64_t before, std::size_t name, std::size_t at) {
    if (!guarded(name)) return;
    if ((names_[name].roles & role::keep) == 0) allowance_.spend(reached_.parts - before, at, header_.names[name].text);
    allowance_.spend(weight(given, 1), at, header_.names[name].text);
  }

  [[gnu::noinline]] Ref keyword_arguments(std::size_t name, std::size_t at_node) {
    std::size_t const n = reader_.map("NEW_KW keyword arguments");
    std::uint64_t const before = reached_.parts;
    Ref dict = take(PyDict_New());
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t const at = reader_.offset();
      std::string_view const key = reader_.str("NEW_KW keyword");
      check_utf8(key, at, "NEW_KW keyword");
      Ref const text = str(key);
      check(PyDict_SetItem(dict.get(), text.get(), node().get()));
    }
    pay_for_arguments(dict.get(), before, name, at_node);
    return dict;
  }

  bool absent() {
    if (reader_.peek() != 0xc0) return false;
    reader_.skip();
    return true;
  }

  /// Members of an enumeration, singletons, cached objects and arguments handed back belong to others as well: state from
  /// the bytes would change them for the whole process, or change what was looked at already.
  [[gnu::noinline]] void check_fresh(PyObject* object, std::size_t name, std::size_t at) const {
    if (Py_REFCNT(object) == 1 || options_.names || (names_[name].roles & role::any_state) != 0) return;
    Reader::fail_at(at, cat("REDUCE: ", header_.names[name].text, " gave an object that others hold; it takes no state"));
  }

  [[gnu::noinline]] static void check_state(PyObject* object, PyObject* state, std::size_t at) {
    if (state == Py_None || is_plain_state(state)) return;
    // `"key" in state` of a range of 2**62 or of an array that shows one item so often does not end.
    Reader::fail_at(at, cat("state of a ", type_name(object), ": a ", type_name(state), ", not a dict, tuple, list, text or number"));
  }

  /// Items, pairs and state, in the order of the protocol; `fields` of the four are there.
  [[gnu::noinline]] Ref with_state(Ref object, std::size_t fields, std::size_t number, std::size_t name) {
    remember(number, object.get());
    std::size_t const at = reader_.offset();
    Ref state;
    if (fields >= 1 && !absent()) state = node();
    if (state && !options_.names && (names_[name].roles & role::any_state) == 0) check_state(object.get(), state.get(), at);
    if (state && state.get() != Py_None) look_at_state(Py_TYPE(object.get()), state.get(), name, at);
    if (fields >= 2 && !absent()) append_items(object.get());
    if (fields >= 3 && !absent()) assign_pairs(object.get(), guarded(name));
    if (fields >= 4 && !absent()) {
      PyObject* const setter = named(role::call);
      if (!state) state = Ref::borrow(Py_None);
      settle();
      if (!Ref(PyObject_CallFunctionObjArgs(setter, object.get(), state.get(), nullptr))) failed(at, "state setter");
    } else if (state && state.get() != Py_None) {
      set_state(object.get(), state.get(), guarded(name), at);
    }
    return object;
  }

  /// NumPy and its kin read memory where an attribute of one of these names says, whatever class the object has: bytes may not set them.
  static std::array<PyObject*, 3> const& memory_names() {
    static std::array<PyObject*, 3> const names{intern("__array_interface__"), intern("__array_struct__"), intern("__cuda_array_interface__")};
    return names;
  }

  [[noreturn, gnu::noinline]] void refuse_address(PyObject* key, std::size_t at) const {
    Reader::fail_at(at, cat(place_in_object(bytes_, header_, at), ": an attribute ", lossy_utf8(key), ", which says where memory is"));
  }

  /// The keys of what becomes attributes: a dict, or dicts in a tuple.
  void check_attributes(PyObject* state, std::size_t at) const {
    if (options_.names) return;
    if (PyDict_Check(state) != 0) {
      if (PyDict_Size(state) == 0) return;
      for (PyObject* name : memory_names()) {
        if (dict_get(state, name) != nullptr) refuse_address(name, at);
      }
    } else if (PyTuple_Check(state) != 0) {
      Py_ssize_t const n = std::min<Py_ssize_t>(PyTuple_Size(state), 16);
      for (Py_ssize_t i = 0; i < n; ++i) {
        if (PyDict_Check(PyTuple_GetItem(state, i)) != 0) check_attributes(PyTuple_GetItem(state, i), at);
      }
    }
  }

  static bool is_plain_state(PyObject* state) {
    if (PyDict_Check(state) != 0 || PyTuple_Check(state) != 0 || PyList_Check(state) != 0) return true;
    PyTypeObject* const t = Py_TYPE(state);
    return t == &PyLong_Type || t == &PyBool_Type || t == &PyFloat_Type || t == &PyUnicode_Type || t == &PyBytes_Type;
  }

  static void refuse_at(std::size_t at, std::optional<std::string> const& why) {
    if (why) Reader::fail_at(at, *why);
  }

  /// What a class of the list may be told about itself: before its `__setstate__` hears it.
  [[gnu::noinline]] void look_at_state(PyTypeObject* cls, PyObject* state, std::size_t name, std::size_t at) {
    if (!guarded(name)) return check_attributes(state, at);
    allowance_.spend(weight(state, 1), at, header_.names[name].text);
    if (PyDict_Check(state) != 0) {
      refuse_at(at, why_no_attributes(cls, state));
    } else if (PyTuple_Check(state) != 0) {
      for (Py_ssize_t i = 0; i < PyTuple_Size(state); ++i) {
        if (PyDict_Check(PyTuple_GetItem(state, i)) != 0) refuse_at(at, why_no_attributes(cls, PyTuple_GetItem(state, i)));
      }
    }
    // The object may be of another class than the name says: `operator.call` and old reconstructors make what their arguments name.
    Ref const own = name_of(cls);
    PyObject* const by_name = state_check(name);
    PyObject* const by_class = own ? dict_get(globals().state_checks, own.get()) : nullptr;
    for (PyObject* const look : {by_name, by_class != by_name ? by_class : nullptr}) {
      if (look == nullptr) continue;
      settle();
      if (!Ref(PyObject_CallFunctionObjArgs(look, state, nullptr))) failed(at, cat("state of ", header_.names[name].text));
    }
  }

  /// `module:qualified.name` of a class, or nothing where it says no such thing.
  static Ref name_of(PyTypeObject* cls) {
    auto* const object = reinterpret_cast<PyObject*>(cls);
    Ref const module = try_attr(object, globals().dunder_module);
    Ref const qualname = try_attr(object, globals().dunder_qualname);
    if (!module || !qualname || PyUnicode_Check(module.get()) == 0 || PyUnicode_Check(qualname.get()) == 0) return {};
    return take(PyUnicode_FromFormat("%U:%U", module.get(), qualname.get()));
  }

  /// A class's own __getattr__ may fail otherwise than it should while there is no state.
  [[gnu::noinline]] Ref method(PyObject* object, PyObject* name, std::size_t at) const {
    try {
      return try_attr(object, name);
    } catch (Raised const&) {
      failed(at, cat(utf8(name), " of ", type_name(object)));
    }
  }

  [[gnu::noinline]] void append_items(PyObject* object) {
    std::size_t const at = reader_.offset();
    append_all(object, filled_list(take(PyList_New(0)), reader_.array("items")).get(), at);
  }

  [[gnu::noinline]] void append_all(PyObject* object, PyObject* items, std::size_t at) {
    settle();
    Ref const extend = method(object, globals().extend, at);
    if (!extend) return append_one_by_one(object, items, at);
    if (!Ref(PyObject_CallFunctionObjArgs(extend.get(), items, nullptr))) failed(at, "items");
  }

  [[gnu::noinline]] void append_one_by_one(PyObject* object, PyObject* items, std::size_t at) {
    Ref const append = method(object, globals().append, at);
    if (!append) Reader::fail_at(at, cat("items for a ", type_name(object), ", which takes none"));
    for (Py_ssize_t i = 0; i < PyList_Size(items); ++i) {
      if (!Ref(PyObject_CallFunctionObjArgs(append.get(), PyList_GetItem(items, i), nullptr))) failed(at, "items");
    }
  }

  [[noreturn, gnu::noinline]] static void uneven(std::size_t n, std::size_t at) {
    Reader::fail_at(at, cat("pairs: ", n, " nodes, an even number is needed"));
  }

  [[gnu::noinline]] void assign_pairs(PyObject* object, bool guarded) {
    std::size_t const at = reader_.offset();
    std::size_t const n = reader_.array("pairs");
    if (n % 2 != 0) uneven(n, at);
    // With a `__getattr__` of its own, a dict may show its keys as attributes.
    bool const shows_keys = guarded && PyType_GetSlot(Py_TYPE(object), Py_tp_getattro) != reinterpret_cast<void*>(&PyObject_GenericGetAttr);
    KeyHashes hashes;
    for (std::size_t i = 0; i < n; i += 2) {
      Ref const key = key_node(hashes, "pairs");
      if (shows_keys) refuse_at(at, why_no_attribute(Py_TYPE(object), key.get()));
      Ref const value = node();
      if (!options_.names && PyUnicode_Check(key.get()) != 0) {  // some dicts look for attributes among their items
        for (PyObject* name : memory_names()) {
          if (PyUnicode_Compare(key.get(), name) == 0) refuse_address(name, at);
        }
      }
      settle();
      if (PyObject_SetItem(object, key.get(), value.get()) < 0) failed(at, "pairs");
    }
  }

  [[gnu::noinline]] void set_state(PyObject* object, PyObject* state, bool guarded, std::size_t at) {
    Globals const& g = globals();
    Ref const setstate = method(object, g.dunder_setstate, at);
    if (setstate) {
      // Exceptions set what their state names, attribute by attribute.
      if (!options_.names && PyExceptionInstance_Check(object) && PyDict_Check(state) && dict_get(state, g.dunder_class) != nullptr) {
        Reader::fail_at(at, "state: an object keeps its class");
      }
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
        if (!options_.names && PyUnicode_CompareWithASCIIString(key, "__class__") == 0) Reader::fail_at(at, "state: an object keeps its class");
        if (guarded && !is_slot(Py_TYPE(object), key)) {
          // Setting it would run a property or a `__setattr__` on what the bytes say.
          Reader::fail_at(at, cat("state: ", lossy_utf8(key), " is no slot of a ", type_name(object)));
        }
        if (PyObject_SetAttr(object, key, value) < 0) failed(at, "state");
      }
    }
  }

  static bool is_slot(PyTypeObject* cls, PyObject* key) {
    Ref const descriptor = try_attr(reinterpret_cast<PyObject*>(cls), key);
    return descriptor && reinterpret_cast<PyObject*>(Py_TYPE(descriptor.get())) == globals().member_descriptor_type;
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

  [[gnu::noinline]] Ref device_memory(std::size_t at) {
    auto const p = reader_.count("DEVICE payload", limits::table_entries);
    bool const readonly = reader_.boolean("DEVICE readonly");
    Ref memory = to_python(device_payload(p, at));
    if (!readonly) return memory;
    DeviceMemory const& whole = *as_device_memory(memory.get());
    return to_python({.pointer = whole.pointer, .nbytes = whole.nbytes, .device = whole.device, .stream = whole.stream, .readonly = true, .owner = Ref::borrow(memory.get())});
  }

  DeviceMemory device_payload(std::uint64_t p, std::size_t at) {
    if (p >= header_.sizes.size()) Reader::fail_at(at, cat("payload ", p, " of ", header_.sizes.size()));
    bool const here = !incoming_.came_in_host_memory(p);
    if (!options_.device && !here && device_count() == 0) {
      raise(ErrorKind::unsupported, cat(place_in_object(bytes_, header_, at), ": memory of a GPU, and no GPU can be used here; device=\"host\" leaves it in host memory"));
    }
    return incoming_.device_payload(p, options_.device || here ? options_.device : current_device());
  }

  // ── Arrays of a GPU, by classes that an adapter names (its `classes`) ──────────────────────────────────

  static constexpr std::size_t most_array_dimensions = 64;

  /// An array's memory and shape as nearly all are written: TUPLE [DEVICE, dtype, TUPLE of lengths], without strides.
  struct PlainArray {
    std::uint64_t payload = 0;
    std::size_t memory_at = 0;
    std::size_t dtype_at = 0;
    std::size_t end = 0;
    bool marked = false;  ///< the outer tuple
    std::size_t ndim = 0;
    std::array<std::uint64_t, most_array_dimensions> shape{};
  };

  /// Looks ahead: whether the value at the reader is such a one. The reader stays where it is.
  bool next_is_plain_array(PlainArray& array) {
    Reader ahead = reader_;
    auto const begins = [&](Op op, std::size_t& n, bool& marked) {
      if (!ahead.next_is_array()) return false;
      n = ahead.next().size;
      Token const code = n-- > 0 ? ahead.next() : Token{.type = Type::nil, .integer = 0, .data = nullptr};
      marked = code.type == Type::integer && (code.integer & mark) != 0;
      return code.type == Type::integer && (code.integer & ~static_cast<std::int64_t>(mark)) == static_cast<std::int64_t>(op);
    };
    std::size_t n = 0;
    bool marked = false;
    if (!begins(Op::tuple, n, array.marked) || n != 3) return false;
    array.memory_at = ahead.offset();
    if (!begins(Op::device, n, marked) || marked || n != 2) return false;
    Token const payload = ahead.next();
    if (payload.type != Type::integer || payload.integer < 0 || ahead.next().type != Type::boolean) return false;
    array.payload = static_cast<std::uint64_t>(payload.integer);
    array.dtype_at = ahead.offset();
    ahead.skip();
    if (!begins(Op::tuple, array.ndim, marked) || marked || array.ndim > most_array_dimensions) return false;
    for (std::size_t i = 0; i < array.ndim; ++i) {
      Token const length = ahead.next();
      if (length.type != Type::integer || length.integer < 0 || length.integer >= std::int64_t{1} << 62) return false;
      array.shape[i] = static_cast<std::uint64_t>(length.integer);
    }
    array.end = ahead.offset();
    return true;
  }

  /// The array at the reader, or null with the reader and the memo as they were, for what the adapter itself has to look at: strides, memory that
  /// was asked for on the host, no bytes, and all that does not fit.
  [[gnu::noinline]] Ref device_array(PyObject* classes, std::uint64_t name, std::size_t at) {
    PlainArray array;
    if (!next_is_plain_array(array)) return {};
    std::size_t const began = reader_.offset();
    std::size_t const nmemo = memo_.size();
    Extent const around = reached_;
    (void)open(array.marked);  // no encoder refers to a value that an adapter made for it
    DeviceMemory const memory = device_payload(array.payload, array.memory_at);
    reader_.seek(array.dtype_at);
    ++depth_;  // the tuple's level
    Ref const dtype = node();
    --depth_;
    reader_.seek(array.end);
    if (memory.device == host_twin || memory.nbytes == 0 || !fits(array, dtype.get(), memory.nbytes)) {
      reader_.seek(began);
      memo_.resize(nmemo);
      reached_ = around;
      return {};
    }
    settle();
    if (!arrays_ || arrays_of_ != name) {
      Ref const known(PyObject_CallFunctionObjArgs(classes, nullptr));
      if (!known) failed(at, cat("adapter ", header_.names[name].text));
      arrays_.emplace(known.get());
      arrays_of_ = name;
    }
    Ref shape = take(PyTuple_New(static_cast<Py_ssize_t>(array.ndim)));
    for (std::size_t i = 0; i < array.ndim; ++i) check(PyTuple_SetItem(shape.get(), static_cast<Py_ssize_t>(i), take(PyLong_FromUnsignedLongLong(array.shape[i])).release()));
    std::uint64_t const offset = memory.pointer - as_device_memory(memory.owner.get())->pointer;
    Ref made = arrays_->make(shape.get(), dtype.get(), memory.owner.get(), offset);
    if (!made) failed(at, cat("adapter ", header_.names[name].text));
    return made;
  }

  /// Whether the array's items are of a dtype without objects, and so many of them lie in `nbytes` bytes.
  bool fits(PlainArray const& array, PyObject* dtype, std::uint64_t nbytes) {
    if (dtype != array_dtype_.get()) {
      Numpy const* const np = numpy_if_loaded();
      if (np == nullptr || PyType_IsSubtype(Py_TYPE(dtype), reinterpret_cast<PyTypeObject*>(np->dtype)) == 0) return false;
      static PyObject* const hasobject = intern("hasobject");
      static PyObject* const itemsize = intern("itemsize");
      if (attr(dtype, hasobject).get() != Py_False) return false;
      Py_ssize_t const size = PyLong_AsSsize_t(attr(dtype, itemsize).get());
      if (size < 0) throw Raised{};
      array_itemsize_ = static_cast<std::uint64_t>(size);
      array_dtype_ = Ref::borrow(dtype);
    }
    std::uint64_t needed = array_itemsize_;
    for (std::size_t i = 0; i < array.ndim; ++i) {
      if (__builtin_mul_overflow(needed, array.shape[i], &needed)) return false;
    }
    return needed <= nbytes;
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
    static constinit Once calcsize;
    Ref const text = text_of(format, [&] { return cat("header byte ", format_at, ": MEMORYVIEW format"); });
    Ref const size(PyObject_CallFunctionObjArgs(calcsize([] { return attr(import("struct").get(), "calcsize"); }), text.get(), nullptr));
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

  /// Dtypes without names, which nothing can change, stay known from message to message, as many as this.
  static constexpr std::size_t most_plain_dtypes = 32;

  static std::vector<std::unique_ptr<KnownDtype>>& plain_dtypes() {
    static auto& kept = *new std::vector<std::unique_ptr<KnownDtype>>;  // outlives the interpreter, as do the bytes that `raw` views
    return kept;
  }

  /// The raw dtype at the reader; equal bytes give the same object. Objects are only let through for DTYPE.
  KnownDtype const& known_dtype() {
    std::size_t const at = reader_.offset();
    if (!msgpack::Reader::is_array(reader_.peek()) && !reader_.next_is_str()) return table_dtype(at);
    if (last_dtype_ != nullptr && starts_with(last_dtype_->raw)) return *last_dtype_;
    for (auto const& known : dtypes_) {
      if (starts_with(known->raw)) return *(last_dtype_ = known.get());
    }
    for (auto const& plain : plain_dtypes()) {
      if (starts_with(plain->raw)) return *(last_dtype_ = plain.get());
    }
    auto known = read_known_dtype();
    known->raw = reader_.since(at);
    if (msgpack::Reader::is_str(static_cast<std::uint8_t>(known->raw[0])) && known->raw.size() <= 16 && plain_dtypes().size() < most_plain_dtypes) {
      auto* const text = new std::vector<std::byte>(known->raw.begin(), known->raw.end());
      known->raw = *text;
      return *(last_dtype_ = plain_dtypes().emplace_back(std::move(known)).get());
    }
    if (dtypes_.size() < 64) {
      dtypes_.push_back(std::move(known));
      return *(last_dtype_ = dtypes_.back().get());
    }
    spare_dtype_ = std::move(known);
    last_dtype_ = nullptr;
    return *spare_dtype_;
  }

  /// Where the reader stands before an index into the table of dtypes.
  [[gnu::noinline]] KnownDtype const& table_dtype(std::size_t at) {
    std::size_t const number = dtype_number(at);
    std::unique_ptr<KnownDtype>& known = table_dtypes_[number];
    if (!known) {
      std::size_t const end = reader_.offset();
      reader_.seek(header_.dtypes[number]);
      known = read_known_dtype();
      reader_.seek(end);
    }
    return *known;
  }

  std::size_t dtype_number(std::size_t at) {
    auto const number = reader_.count("dtype", limits::table_entries);
    if (number >= header_.dtypes.size()) Reader::fail_at(at, cat("dtype: ", number, " of ", header_.dtypes.size(), " in meta !dtypes"));
    return number;
  }

  std::unique_ptr<KnownDtype> read_known_dtype() {
    auto known = std::make_unique<KnownDtype>();
    known->dtype = parsed_dtype(false);
    static PyObject* const itemsize = intern("itemsize");
    static PyObject* const alignment = intern("alignment");
    static PyObject* const kind = intern("kind");
    known->is_void = utf8(attr(known->dtype.get(), kind).get()) == "V";
    known->itemsize = static_cast<std::uint64_t>(PyLong_AsSsize_t(attr(known->dtype.get(), itemsize).get()));
    known->align = static_cast<std::size_t>(PyLong_AsSsize_t(attr(known->dtype.get(), alignment).get()));
    return known;
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
    if (msgpack::Reader::is_array(reader_.peek()) || reader_.next_is_str()) return parsed_dtype(objects);
    // Each entry is made once: a few bytes name a long dtype again and again.
    Ref& known = table_objects_[dtype_number(at)];
    if (!known) {
      std::size_t const end = reader_.offset();
      reader_.seek(header_.dtypes[static_cast<std::size_t>(&known - table_objects_.data())]);
      known = parsed_dtype(objects);
      reader_.seek(end);
    }
    return Ref::borrow(known.get());
  }

  Ref parsed_dtype(bool objects) {
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
      static constinit Once no;
      Ref const setflags = attr(array.get(), globals().setflags);
      Ref const done = take(PyObject_Call(setflags.get(), globals().empty_tuple, no([] { return take(Py_BuildValue("{sO}", "write", Py_False)); })));
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
    reached_.height += limits::object_array_levels - 1;
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
    Ref scalar(PyObject_GetItem(array.get(), shape.get()));
    if (!scalar) failed(at, "SCALAR");
    // NumPy makes texts of whatever numbers it finds, and Python has none for those beyond Unicode's.
    for (Py_ssize_t i = PyUnicode_Check(scalar.get()) != 0 ? PyUnicode_GetLength(scalar.get()) : 0; i-- > 0;) {
      if (PyUnicode_ReadChar(scalar.get(), i) > 0x10ffff) Reader::fail_at(at, cat("SCALAR: character ", i, " is none of Unicode's"));
    }
    return scalar;
  }

  // ── Errors ─────────────────────────────────────────────────────────────────────────────────────────────

  static constexpr std::size_t most_words = 2000;  // bytes of another's error text

  /// What a class or function of this process said to the values in the bytes, with its own error as the cause: unsupported where it cannot do here
  /// what they ask for, or a module is missing; else malformed.
  /// Apart, as the next few: texts of errors would take stack at every level of nesting.
  [[noreturn, gnu::noinline]] void failed(std::size_t at, char const* what) const { failed(at, std::string(what)); }

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
    auto const error_class = [](char const* kind) { return dict_get(globals().errors, take(PyUnicode_FromString(kind)).get()); };
    PyObject* const malformed = error_class("malformed");
    // One of ours from further down already says where.
    if (PyErr_GivenExceptionMatches(cause.get(), malformed) != 0) {
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(cause.get())), cause.get());
      throw Raised{};
    }
    PyObject* const unsupported = error_class("unsupported");
    bool const ours = PyErr_GivenExceptionMatches(cause.get(), unsupported) != 0;
    bool const cannot = ours || PyErr_GivenExceptionMatches(cause.get(), PyExc_NotImplementedError) != 0 || PyErr_GivenExceptionMatches(cause.get(), PyExc_ImportError) != 0;
    Ref const said(PyObject_Str(cause.get()));
    if (!said) PyErr_Clear();
    std::string words = said ? lossy_utf8(said.get()) : std::string("?");
    if (words.size() > most_words) words = cat(words.substr(0, most_words), "…");  // it may quote the bytes
    if (!ours) words = cat(type_name(cause.get()), ": ", words);
    std::string const where = place_in_object(bytes_, header_, at);
    std::string const text = cannot ? cat(where, ": ", what, ": ", words) : cat("header byte ", at, " (", where, "): ", what, ": ", words);
    PyObject* const cls = cannot ? unsupported : malformed;
    Ref const error = take(PyObject_CallFunctionObjArgs(cls, lossy_str(text).get(), nullptr));
    PyException_SetCause(error.get(), cause.release());
    PyErr_SetObject(cls, error.get());
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
  struct Remembered {
    Ref object;
    Extent extent;
    bool open = true;  ///< it is still being read
  };
  std::vector<Remembered> memo_;
  std::size_t lowest_open_ = unmarked;  ///< the first to begin of those that are being read and were referred to
  std::vector<Late> late_;              ///< to be looked at again when `lowest_open_` is complete
  std::size_t looks_ = 0;
  std::optional<bool> foreign_;
  Extent reached_;                      ///< by the children of the node that is being read
  std::uint32_t chain_ = static_cast<std::uint32_t>(stack_.levels(512, limits::depth));
  std::uint64_t frames_nbytes_ = 0;
  std::uint64_t copied_ = 0;            ///< by objects that do not lie in the frames
  std::uint64_t made_ = 0;              ///< copied by stand-ins and adapters, as they say
  static thread_local Decoder* current_;
  Allowance allowance_{0, 0, true};
  std::vector<std::unique_ptr<KnownDtype>> dtypes_;
  std::unique_ptr<KnownDtype> spare_dtype_;
  std::vector<std::unique_ptr<KnownDtype>> table_dtypes_;  ///< of meta !dtypes, once asked for
  std::vector<Ref> table_objects_;  ///< likewise, for DTYPE
  KnownDtype const* last_dtype_ = nullptr;
  std::optional<DeviceArrays> arrays_;  ///< of the adapter `arrays_of_`
  std::uint64_t arrays_of_ = 0;
  Ref array_dtype_;  ///< of the array before
  std::uint64_t array_itemsize_ = 0;
};

thread_local Decoder* Decoder::current_ = nullptr;

}  // namespace

void charge_copy(std::uint64_t nbytes) { Decoder::charge_copy(nbytes); }

void charge_keys(PyObject* keys) { Decoder::charge_keys(keys); }

Ref decode(std::span<std::byte const> header, PyObject* frames, DecodeOptions options) { return Decoder(header, frames, options).run(); }

}  // namespace transload::py
