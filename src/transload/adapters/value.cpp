#include "transload/adapters/value.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "transload/adapters/arrow_decode.hpp"
#include "transload/adapters/arrow_view.hpp"
#include "transload/base/limits.hpp"
#include "transload/message/header.hpp"

namespace transload {

std::string_view to_string(ValueKind kind) noexcept {
  switch (kind) {
    case ValueKind::none: return "None";
    case ValueKind::boolean: return "bool";
    case ValueKind::integer:
    case ValueKind::bigint: return "int";
    case ValueKind::real: return "float";
    case ValueKind::complex: return "complex";
    case ValueKind::str:
    case ValueKind::text: return "str";
    case ValueKind::bytes: return "bytes";
    case ValueKind::bytearray: return "bytearray";
    case ValueKind::memoryview: return "memoryview";
    case ValueKind::list: return "list";
    case ValueKind::tuple: return "tuple";
    case ValueKind::set: return "set";
    case ValueKind::frozenset: return "frozenset";
    case ValueKind::dict: return "dict";
    case ValueKind::object: return "object";
    case ValueKind::name: return "name";
    case ValueKind::reduce: return "reduce";
    case ValueKind::instance: return "instance";
    case ValueKind::adapted: return "adapted";
    case ValueKind::slice: return "slice";
    case ValueKind::range: return "range";
    case ValueKind::array: return "array";
    case ValueKind::object_array: return "object array";
    case ValueKind::scalar: return "scalar";
    case ValueKind::dtype: return "dtype";
    case ValueKind::arrow: return "arrow";
    case ValueKind::pickle: return "pickle";
    case ValueKind::device: return "device memory";
    case ValueKind::error: return "error";
  }
  return "?";
}

namespace detail {

namespace {

using msgpack::Reader;
using msgpack::Token;
using msgpack::Type;

namespace node_flags {
constexpr std::uint8_t shared = 1;      // a REF names it
constexpr std::uint8_t usable = 2;    // REF may name it: complete, or a kind that can be referred to from inside
constexpr std::uint8_t big = 4;       // integer: above INT64_MAX
constexpr std::uint8_t in_line = 8;   // bytes: inside the header
constexpr std::uint8_t record = 16;   // dict: keys from a shape
constexpr std::uint8_t floats = 32;   // array: a list of floats
}  // namespace node_flags

struct Complex {
  double re, im;
};

struct Span {
  std::uint32_t first, count;  // children
  std::uint32_t offset, size;  // header bytes
};

struct Node {
  ValueKind kind = ValueKind::none;
  std::uint8_t flags = 0;
  std::uint32_t which = 0;  // index into names, shapes, arrays_, dtypes_ or payloads, as the kind has it
  union {
    std::int64_t integer;
    double real;
    Complex complex;
    Span span = {};
  };
};
static_assert(sizeof(Node) == 24);

/// Bytes in the header or in a payload.
struct Data {
  std::uint32_t payload = 0;
  bool in_line = false;
  std::span<std::byte const> bytes;  // in line
  std::uint64_t nbytes = 0;
};

struct ArrayNode {
  std::shared_ptr<DType const> dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::int64_t> strides;
  std::uint64_t offset = 0;
  Data data;
  bool readonly = false;
  std::string_view format;
};

// Places of the children of reduce and instance.
constexpr std::uint32_t args_at = 0;
constexpr std::uint32_t state_at = 1;
constexpr std::uint32_t items_at = 2;
constexpr std::uint32_t pairs_at = 3;
constexpr std::uint32_t setter_at = 4;
constexpr std::uint32_t kwargs_at = 5;

}  // namespace

/// A parsed message: nodes in one arena, their children in another, all by index.
class Document : public std::enable_shared_from_this<Document> {
 public:
  Document(Message message, std::optional<Container> container, Resource& resource, std::optional<std::uint64_t> most_nbytes)
      : message_(std::move(message)),
        container_(std::move(container)),
        resource_(&resource),
        header_(Header::parse(message_.header.bytes(), message_.frames.size())),
        payloads_(header_, message_.frames, resource) {
    open_frames(header_, message_.frames, resource, {.check_xxh3 = !container_, .most_nbytes = most_nbytes});
    payloads_ = Payloads(header_, message_.frames, resource);
  }

  static Value open(std::shared_ptr<Document> document) {
    std::uint32_t const root = document->parse();
    return {std::move(document), root};
  }

  [[nodiscard]] Node const& node(std::uint32_t i) const noexcept { return nodes_[i]; }
  [[nodiscard]] std::uint32_t child(Node const& node, std::size_t i) const noexcept { return children_[node.span.first + i]; }
  [[nodiscard]] Header const& header() const noexcept { return header_; }
  [[nodiscard]] std::uint64_t nbytes() const noexcept { return message_.nbytes(); }
  [[nodiscard]] ArrayNode const& array(std::uint32_t i) const noexcept { return arrays_[i]; }
  [[nodiscard]] std::span<std::byte const> header_bytes(std::uint32_t offset, std::uint32_t size) const noexcept {
    return message_.header.bytes().subspan(offset, size);
  }
  [[nodiscard]] std::uint32_t key_node(std::uint32_t shape, std::size_t i) const noexcept { return key_nodes_[shape] + static_cast<std::uint32_t>(i); }

  [[nodiscard]] std::span<std::byte const> payload(std::uint32_t p) const {
    Place const& place = header_.layout.places[p];
    if (container_) {
      for (std::uint32_t i = 0; i < place.nframes; ++i) container_->check_frame(place.frame + i);
    }
    std::lock_guard const lock(mutex_);
    return payloads_[p];
  }

  /// Bytes of `data`, at a multiple of `align` (in the header they lie anywhere).
  [[nodiscard]] std::span<std::byte const> bytes(Data const& data, std::size_t align) const {
    if (!data.in_line) return payload(data.payload);
    if (data.bytes.empty() || reinterpret_cast<std::uintptr_t>(data.bytes.data()) % align == 0) return data.bytes;
    std::lock_guard const lock(mutex_);
    if (auto const at = aligned_.find(data.bytes.data()); at != aligned_.end()) return at->second.bytes();
    Buffer copy = Buffer::allocate(data.bytes.size(), *resource_);
    std::memcpy(copy.writable().data(), data.bytes.data(), data.bytes.size());
    return aligned_.emplace(data.bytes.data(), std::move(copy)).first->second.bytes();
  }

 private:
  // How the elements of an open node are read.
  enum class Mode : std::uint8_t { nodes, keyword_nodes, last, sections, sections_with_kwargs, integers };

  struct Open {
    std::uint32_t node;
    std::uint32_t slot;       // of the next child
    std::uint32_t remaining;  // elements
    std::uint32_t out = 0;    // last: where the result goes
    std::uint32_t memo = none_memo;
    std::uint32_t step = 0;   // sections
    Mode mode = Mode::nodes;
  };

  static constexpr std::uint32_t none_memo = UINT32_MAX;
  static constexpr std::uint32_t pending = UINT32_MAX;

  std::uint32_t parse() {
    nodes_.reserve(64);
    table_dtypes_.resize(header_.dtypes.size());
    new_node(ValueKind::none).flags = node_flags::usable;
    new_node(ValueKind::boolean).flags = node_flags::usable;
    new_node(ValueKind::boolean).flags = node_flags::usable;
    nodes_[2].integer = 1;
    Reader reader(message_.header.bytes());
    // The keys of the shapes are nodes too, so that attributes can be walked like pairs.
    key_nodes_.reserve(header_.shapes.size());
    for (ShapeEntry const& shape : header_.shapes) {
      key_nodes_.push_back(static_cast<std::uint32_t>(nodes_.size()));
      for (std::string_view const key : shape.keys) {
        Node& node = new_node(ValueKind::str);
        node.flags = node_flags::usable;
        node.span.offset = static_cast<std::uint32_t>(reinterpret_cast<std::byte const*>(key.data()) - message_.header.data());
        node.span.size = static_cast<std::uint32_t>(key.size());
      }
    }
    reader.seek(header_.root_offset);
    std::uint32_t const root = take_slots(1);
    parse_node(reader, root);
    while (!open_.empty()) {
      if (open_.back().remaining == 0) {
        close(reader);
      } else {
        step(reader);
      }
    }
    memo_.clear();
    memo_.shrink_to_fit();
    dtypes_by_text_.clear();
    table_dtypes_.clear();
    return children_[root];
  }

  Node& new_node(ValueKind kind) {
    if (nodes_.size() >= UINT32_MAX) raise(ErrorKind::exhausted, "header: more than 2^32 - 1 values");
    nodes_.emplace_back().kind = kind;
    return nodes_.back();
  }
  [[nodiscard]] std::uint32_t latest() const noexcept { return static_cast<std::uint32_t>(nodes_.size() - 1); }

  // Header::parse has passed over the root once, so counts never add up to more than the header's bytes.
  std::uint32_t take_slots(std::size_t n) {
    auto const first = static_cast<std::uint32_t>(children_.size());
    children_.resize(children_.size() + n, 0);
    return first;
  }

  void push(Reader const& reader, Open open) {
    if (open_.size() >= limits::depth) reader.fail_here(cat("nodes: nested deeper than ", limits::depth));
    open_.push_back(open);
  }

  /// Opens node `node` over `n` children.
  void push_children(Reader const& reader, std::uint32_t node, std::size_t n, Mode mode = Mode::nodes) {
    std::uint32_t const first = take_slots(n);
    nodes_[node].span.first = first;
    nodes_[node].span.count = static_cast<std::uint32_t>(n);
    push(reader, {.node = node, .slot = first, .remaining = static_cast<std::uint32_t>(n), .mode = mode});
  }

  void set_bytes(Node& node, std::span<std::byte const> bytes) const noexcept {
    node.flags |= node_flags::in_line;
    node.span.offset = static_cast<std::uint32_t>(bytes.data() - message_.header.data());
    node.span.size = static_cast<std::uint32_t>(bytes.size());
  }

  void step(Reader& reader) {
    Open& open = open_.back();
    --open.remaining;
    if (open.mode == Mode::sections || open.mode == Mode::sections_with_kwargs) {
      step_section(reader);
      return;
    }
    std::uint32_t const slot = open.slot++;
    parse_node(reader, slot);  // `open` may dangle now
  }

  void step_section(Reader& reader) {
    Open& open = open_.back();
    std::uint32_t const node = open.node;
    std::uint32_t const first = nodes_[node].span.first;
    bool const with_kwargs = open.mode == Mode::sections_with_kwargs;
    std::uint32_t step = open.step++;
    if (with_kwargs && step > 0) step = step == 1 ? kwargs_at : step - 1;
    if (step != args_at && step != kwargs_at) nodes_[node].flags |= node_flags::usable;
    auto const sequence = [&](ValueKind kind, std::uint32_t at, std::size_t n) {
      new_node(kind);
      std::uint32_t const made = latest();
      children_[first + at] = made;
      push_children(reader, made, n);
    };
    switch (step) {
      case args_at: sequence(ValueKind::tuple, args_at, reader.array("args")); return;
      case kwargs_at: {
        std::size_t const n = reader.map("kwargs");
        new_node(ValueKind::dict);
        std::uint32_t const made = latest();
        children_[first + kwargs_at] = made;
        push_children(reader, made, 2 * n, Mode::keyword_nodes);
        return;
      }
      case state_at: parse_node(reader, first + state_at); return;
      case items_at:
        if (skip_nil(reader)) return;
        sequence(ValueKind::list, items_at, reader.array("items"));
        return;
      case pairs_at: {
        if (skip_nil(reader)) return;
        std::size_t const at = reader.offset();
        std::size_t const n = reader.array("pairs");
        if (n % 2 != 0) Reader::fail_at(at, cat("pairs: ", n, " elements, an even number is needed"));
        sequence(ValueKind::dict, pairs_at, n);
        return;
      }
      default: {
        if (skip_nil(reader)) return;
        std::uint32_t const name = name_index(reader, "setter");
        Node& made = new_node(ValueKind::name);
        made.which = name;
        made.flags |= node_flags::usable;
        children_[first + setter_at] = latest();
      }
    }
  }

  static bool skip_nil(Reader& reader) {
    if (reader.peek() != 0xc0) return false;
    reader.skip();
    return true;
  }

  void close(Reader const& reader) {
    Open const open = open_.back();
    open_.pop_back();
    if (open.mode == Mode::last) {
      std::uint32_t const result = children_[open.slot - 1];
      children_[open.out] = result;
      if (open.memo != none_memo) memo_[open.memo] = result;
      return;
    }
    Node& node = nodes_[open.node];
    if (open.mode == Mode::keyword_nodes || open.mode == Mode::integers) {
      for (std::uint32_t i = 0; i < node.span.count; ++i) {
        ValueKind const kind = nodes_[children_[node.span.first + i]].kind;
        if (open.mode == Mode::integers && kind != ValueKind::integer && kind != ValueKind::bigint) {
          reader.fail_here(cat("RANGE: ", to_string(kind), " where int is needed"));
        }
        if (open.mode == Mode::keyword_nodes && i % 2 == 0 && kind != ValueKind::str) {
          reader.fail_here(cat("kwargs: a key is ", to_string(kind), " where str is needed"));
        }
      }
    }
    node.flags |= node_flags::usable;
  }

  void parse_node(Reader& reader, std::uint32_t slot) {
    std::size_t const at = reader.offset();
    Token const token = reader.next();
    if (token.type != Type::array) {
      plain(reader, slot, token, at, none_memo);
      return;
    }
    if (token.size == 0) Reader::fail_at(at, "node: an empty array");
    auto const code = reader.count("op", 0x7f);
    auto const op = static_cast<Op>(code & ~std::uint64_t{mark});
    std::uint32_t memo = none_memo;
    if ((code & mark) != 0) {
      memo = static_cast<std::uint32_t>(memo_.size());
      memo_.push_back(pending);
    }
    tagged(reader, slot, op, token.size - 1, at, memo);
  }

  /// Gives the node its memo number and its place.
  void place(std::uint32_t node, std::uint32_t slot, std::uint32_t memo) {
    children_[slot] = node;
    if (memo != none_memo) memo_[memo] = node;
  }

  /// A value that is no tagged array.
  void plain(Reader& reader, std::uint32_t slot, Token const& token, std::size_t at, std::uint32_t memo) {
    std::uint32_t made = 0;
    switch (token.type) {
      case Type::nil: made = 0; break;
      case Type::boolean: made = token.boolean ? 2 : 1; break;
      case Type::integer:
      case Type::big_unsigned: {
        Node& node = new_node(ValueKind::integer);
        node.integer = token.integer;
        node.flags = static_cast<std::uint8_t>(node_flags::usable | (token.type == Type::big_unsigned ? node_flags::big : 0));
        made = latest();
        break;
      }
      case Type::real: {
        Node& node = new_node(ValueKind::real);
        node.real = token.real;
        node.flags = node_flags::usable;
        made = latest();
        break;
      }
      case Type::str:
        check_utf8(token.text(), at, "str");
        [[fallthrough]];
      case Type::bin: {
        Node& node = new_node(token.type == Type::str ? ValueKind::str : ValueKind::bytes);
        set_bytes(node, token.bytes());
        node.flags |= node_flags::usable;
        made = latest();
        break;
      }
      case Type::map: {
        new_node(ValueKind::dict).flags = node_flags::usable;
        made = latest();
        place(made, slot, memo);
        push_children(reader, made, 2 * token.size);
        return;
      }
      case Type::array: Reader::fail_at(at, "VALUE: a tagged array");
    }
    place(made, slot, memo);
  }

  std::uint32_t name_index(Reader& reader, std::string_view field) const {
    std::size_t const at = reader.offset();
    auto const i = reader.count(field, limits::table_entries);
    if (i >= header_.names.size()) Reader::fail_at(at, cat(field, ": name ", i, " of ", header_.names.size()));
    return static_cast<std::uint32_t>(i);
  }

  std::uint32_t payload_index(std::int64_t i, std::size_t at, std::string_view field) const {
    if (i < 0 || static_cast<std::uint64_t>(i) >= header_.sizes.size()) Reader::fail_at(at, cat(field, ": payload ", i, " of ", header_.sizes.size()));
    return static_cast<std::uint32_t>(i);
  }

  Data data(Reader& reader, std::string_view field) const {
    std::size_t const at = reader.offset();
    Token const token = reader.next();
    if (token.type == Type::bin) return {.payload = 0, .in_line = true, .bytes = token.bytes(), .nbytes = token.size};
    if (token.type != Type::integer) Reader::fail_at(at, cat(field, ": ", to_string(token.type), " where a payload or bin is needed"));
    std::uint32_t const p = payload_index(token.integer, at, field);
    return {.payload = p, .in_line = false, .bytes = {}, .nbytes = header_.sizes[p].nbytes};
  }

  static std::vector<std::uint64_t> shape(Reader& reader, std::string_view field) {
    if (!reader.next_is_array()) return {reader.count(field, limits::payload_nbytes)};
    std::size_t const at = reader.offset();
    std::size_t const n = reader.array(field);
    if (n > limits::ndim) Reader::fail_at(at, cat(field, ": ", n, " dimensions, the limit is ", limits::ndim));
    std::vector<std::uint64_t> out(n);
    for (std::uint64_t& d : out) d = reader.count(field, limits::payload_nbytes);
    return out;
  }

  std::shared_ptr<DType const> dtype(Reader& reader, bool objects) {
    std::size_t const at = reader.offset();
    if (!Reader::is_array(reader.peek()) && !reader.next_is_str()) {  // an index into the table
      auto const i = reader.count("dtype", limits::table_entries);
      if (i >= header_.dtypes.size()) Reader::fail_at(at, cat("dtype: ", i, " of ", header_.dtypes.size(), " in meta !dtypes"));
      // Each entry is read once: a few bytes name a long dtype again and again.
      std::shared_ptr<DType const>& entry = table_dtypes_[i];
      if (entry == nullptr) {
        Reader apart(message_.header.bytes());
        apart.seek(header_.dtypes[i]);
        if (!Reader::is_array(apart.peek()) && !apart.next_is_str()) Reader::fail_at(apart.offset(), "meta !dtypes: neither str nor array");
        entry = dtype(apart, true);
      }
      if (!objects && !entry->raw()) Reader::fail_at(at, cat("dtype ", entry->text(), ": objects cannot come from raw bytes"));
      return entry;
    }
    Reader ahead = reader;
    ahead.skip();
    auto const raw = reader.since(at).data();
    std::string_view const text(reinterpret_cast<char const*>(raw), ahead.offset() - at);
    auto& known = dtypes_by_text_[text];
    if (known == nullptr) known = std::make_shared<DType const>(DType::parse(reader, true));
    if (!objects && !known->raw()) Reader::fail_at(at, cat("dtype ", known->text(), ": objects cannot come from raw bytes"));
    reader.seek(ahead.offset());
    return known;
  }

  template <class Check>
  void checked(std::size_t at, Check&& check) {
    try {
      check();
    } catch (Error const& error) {
      Reader::fail_at(at, error.what());
    }
  }

  std::uint32_t add_array(ArrayNode array) {
    arrays_.push_back(std::move(array));
    return static_cast<std::uint32_t>(arrays_.size() - 1);
  }

  /// A node that has no children and is complete.
  void leaf(ValueKind kind, std::uint32_t which, std::uint32_t slot, std::uint32_t memo, std::uint8_t flags = 0) {
    Node& node = new_node(kind);
    node.which = which;
    node.flags = static_cast<std::uint8_t>(flags | node_flags::usable);
    place(latest(), slot, memo);
  }

  /// `n` elements follow the op.
  void tagged(Reader& reader, std::uint32_t slot, Op op, std::size_t n, std::size_t at, std::uint32_t memo) {
    auto const need = [&](std::size_t least, std::size_t most) {
      if (n < least || n > most) {
        Reader::fail_at(at, cat(to_string(op), ": ", n + 1, " elements, ", least + 1, least == most ? "" : cat(" to ", most + 1), " are needed"));
      }
    };
    auto const sequence = [&](ValueKind kind, std::size_t count, bool from_inside, Mode mode = Mode::nodes) {
      new_node(kind).flags = from_inside ? node_flags::usable : std::uint8_t{0};
      std::uint32_t const made = latest();
      place(made, slot, memo);
      push_children(reader, made, count, mode);
      return made;
    };
    switch (op) {
      case Op::ref: {
        need(1, 1);
        std::size_t const number_at = reader.offset();
        auto const number = reader.count("REF", UINT32_MAX);
        if (number >= memo_.size() || memo_[number] == pending || (nodes_[memo_[number]].flags & node_flags::usable) == 0) {
          Reader::fail_at(number_at, cat("REF: object ", number, number >= memo_.size() ? " has not begun" : " is not complete"));
        }
        // None, False and True are one node each, and always shared.
        if (memo_[number] > 2) nodes_[memo_[number]].flags |= node_flags::shared;
        place(memo_[number], slot, memo);
        return;
      }
      case Op::value: {
        need(1, 1);
        std::size_t const value_at = reader.offset();
        plain(reader, slot, reader.next(), value_at, memo);
        return;
      }
      case Op::list: sequence(ValueKind::list, n, true); return;
      case Op::tuple: sequence(ValueKind::tuple, n, false); return;
      case Op::set: sequence(ValueKind::set, n, true); return;
      case Op::frozenset: sequence(ValueKind::frozenset, n, false); return;
      case Op::record:
      case Op::object: {
        if (n == 0) need(1, limits::header_nbytes);
        std::size_t const shape_at = reader.offset();
        auto const i = reader.count("shape", limits::table_entries);
        if (i >= header_.shapes.size()) Reader::fail_at(shape_at, cat(to_string(op), ": shape ", i, " of ", header_.shapes.size()));
        ShapeEntry const& entry = header_.shapes[i];
        if (entry.cls.has_value() != (op == Op::object)) {
          Reader::fail_at(shape_at, cat(to_string(op), ": shape ", i, entry.cls ? " has a class" : " has no class"));
        }
        need(1 + entry.keys.size(), 1 + entry.keys.size());
        new_node(op == Op::object ? ValueKind::object : ValueKind::dict).flags = node_flags::usable | node_flags::record;
        std::uint32_t const made = latest();
        nodes_[made].which = static_cast<std::uint32_t>(i);
        place(made, slot, memo);
        push_children(reader, made, n - 1);
        return;
      }
      case Op::name: need(1, 1); leaf(ValueKind::name, name_index(reader, "NAME"), slot, memo); return;
      case Op::reduce:
      case Op::new_:
      case Op::new_kw: {
        bool const kwargs = op == Op::new_kw;
        need(kwargs ? 3 : 2, kwargs ? 7 : 6);
        std::uint32_t const name = name_index(reader, to_string(op));
        Node& node = new_node(op == Op::reduce ? ValueKind::reduce : ValueKind::instance);
        node.which = name;
        std::uint32_t const made = latest();
        place(made, slot, memo);
        std::uint32_t const first = take_slots(6);
        nodes_[made].span.first = first;
        nodes_[made].span.count = 6;
        push(reader, {.node = made,
                      .slot = first,
                      .remaining = static_cast<std::uint32_t>(n - 1),
                      .mode = kwargs ? Mode::sections_with_kwargs : Mode::sections});
        return;
      }
      case Op::adapted: {
        need(2, 2);
        std::size_t const name_at = reader.offset();
        std::uint32_t const name = name_index(reader, "ADAPTED");
        if (!header_.names[name].is_wire_name()) Reader::fail_at(name_at, "ADAPTED: the name is no wire name");
        nodes_[sequence(ValueKind::adapted, 1, false)].which = name;
        return;
      }
      case Op::bigint: {
        need(1, 1);
        std::size_t const bin_at = reader.offset();
        auto const bytes = reader.bin("BIGINT");
        if (bytes.empty()) Reader::fail_at(bin_at, "BIGINT: no bytes");
        leaf(ValueKind::bigint, 0, slot, memo);
        set_bytes(nodes_.back(), bytes);
        return;
      }
      case Op::complex: {
        need(2, 2);
        double parts[2];
        for (double& part : parts) {
          std::size_t const part_at = reader.offset();
          Token const token = reader.next();
          if (token.type != Type::real) Reader::fail_at(part_at, cat("COMPLEX: ", to_string(token.type), " where float is needed"));
          part = token.real;
        }
        leaf(ValueKind::complex, 0, slot, memo);
        nodes_.back().complex = {parts[0], parts[1]};
        return;
      }
      case Op::text: {
        need(1, 1);
        std::size_t const bin_at = reader.offset();
        auto const bytes = reader.bin("TEXT");
        check_text(bytes, bin_at);
        leaf(ValueKind::text, 0, slot, memo);
        set_bytes(nodes_.back(), bytes);
        return;
      }
      case Op::bytes: {
        need(1, 1);
        std::size_t const payload_at = reader.offset();
        std::uint32_t const p = payload_index(reader.integer("BYTES"), payload_at, "BYTES");
        leaf(ValueKind::bytes, p, slot, memo);
        return;
      }
      case Op::bytearray: {
        need(1, 1);
        Data const bytes = data(reader, "BYTEARRAY");
        leaf(ValueKind::bytearray, bytes.payload, slot, memo);
        if (bytes.in_line) set_bytes(nodes_.back(), bytes.bytes);
        return;
      }
      case Op::device: {
        need(2, 2);
        std::size_t const payload_at = reader.offset();
        std::uint32_t const p = payload_index(reader.integer("DEVICE"), payload_at, "DEVICE");
        if (!header_.sizes[p].device) Reader::fail_at(payload_at, cat("DEVICE: payload ", p, " is host memory"));
        (void)reader.boolean("DEVICE readonly");
        leaf(ValueKind::device, p, slot, memo);
        return;
      }
      case Op::memoryview: need(4, 4); memoryview(reader, slot, at, memo); return;
      case Op::slice: need(3, 3); sequence(ValueKind::slice, 3, false); return;
      case Op::range: need(3, 3); sequence(ValueKind::range, 3, false, Mode::integers); return;
      case Op::floats: {
        need(1, 1);
        static std::shared_ptr<DType const> const float64 = std::make_shared<DType const>(DType::of<double>());
        ArrayNode array;
        array.dtype = float64;
        array.data = data(reader, "FLOATS");
        if (array.data.nbytes % 8 != 0) Reader::fail_at(at, cat("FLOATS: ", array.data.nbytes, " bytes, a multiple of 8 is needed"));
        array.shape = {array.data.nbytes / 8};
        array.strides = {8};
        leaf(ValueKind::array, add_array(std::move(array)), slot, memo, node_flags::floats);
        return;
      }
      case Op::array: need(3, 6); parse_array(reader, slot, n, at, memo); return;
      case Op::object_array: {
        if (n < 2) need(2, limits::header_nbytes);
        ArrayNode array;
        array.dtype = object_dtype();
        array.shape = shape(reader, "OBJECT_ARRAY shape");
        auto const flags = reader.count("OBJECT_ARRAY flags", 3);
        array.readonly = (flags & array_flags::readonly) != 0;
        std::uint64_t items = 0;
        checked(at, [&] { items = nd_nbytes(array.shape, 1); });
        if (items != n - 2) Reader::fail_at(at, cat("OBJECT_ARRAY: ", n - 2, " nodes, the shape needs ", items));
        array.strides = nd_strides(array.shape, 1, (flags & array_flags::fortran) != 0);
        std::uint32_t const which = add_array(std::move(array));
        nodes_[sequence(ValueKind::object_array, n - 2, false)].which = which;
        return;
      }
      case Op::scalar: {
        need(2, 2);
        ArrayNode array;
        array.dtype = dtype(reader, false);
        auto const bytes = reader.bin("SCALAR");
        if (bytes.size() != array.dtype->itemsize) {
          Reader::fail_at(at, cat("SCALAR: ", bytes.size(), " bytes, ", array.dtype->text(), " needs ", array.dtype->itemsize));
        }
        array.data = {.payload = 0, .in_line = true, .bytes = bytes, .nbytes = bytes.size()};
        leaf(ValueKind::scalar, add_array(std::move(array)), slot, memo);
        return;
      }
      case Op::dtype: {
        need(1, 1);
        ArrayNode array;
        array.dtype = dtype(reader, true);
        leaf(ValueKind::dtype, add_array(std::move(array)), slot, memo);
        return;
      }
      case Op::arrow: {
        need(2, limits::header_nbytes);
        std::size_t const begin = reader.offset();
        for (std::size_t i = 0; i < n; ++i) reader.skip();
        leaf(ValueKind::arrow, static_cast<std::uint32_t>(n), slot, memo);
        set_bytes(nodes_.back(), reader.since(begin).first(reader.offset() - begin));
        return;
      }
      case Op::pickle: {
        if (n == 0) need(1, limits::header_nbytes);
        Data const bytes = data(reader, "PICKLE");
        new_node(ValueKind::pickle).which = bytes.payload;
        std::uint32_t const made = latest();
        if (bytes.in_line) set_bytes(nodes_[made], bytes.bytes);
        place(made, slot, memo);
        push_children(reader, made, n - 1);
        return;
      }
      case Op::error: {
        need(1, 1);
        std::size_t const text_at = reader.offset();
        auto const text = reader.str("ERROR");
        check_utf8(text, text_at, "ERROR");
        leaf(ValueKind::error, 0, slot, memo);
        set_bytes(nodes_.back(), std::as_bytes(std::span(text)));
        return;
      }
      case Op::last: {
        if (n == 0) need(1, limits::header_nbytes);
        std::uint32_t const first = take_slots(n);
        push(reader, {.node = 0, .slot = first, .remaining = static_cast<std::uint32_t>(n), .out = slot, .memo = memo, .mode = Mode::last});
        return;
      }
    }
    Reader::fail_at(at, cat("op ", static_cast<int>(op), " has no meaning"));
  }

  static std::shared_ptr<DType const> object_dtype() {
    static std::shared_ptr<DType const> const dtype = std::make_shared<DType const>(DType::parse("|O", true));
    return dtype;
  }

  void memoryview(Reader& reader, std::uint32_t slot, std::size_t at, std::uint32_t memo) {
    ArrayNode array;
    std::size_t const format_at = reader.offset();
    array.format = reader.str("MEMORYVIEW format");
    check_utf8(array.format, format_at, "MEMORYVIEW format");
    array.data = data(reader, "MEMORYVIEW");
    array.shape = shape(reader, "MEMORYVIEW shape");
    array.readonly = reader.boolean("MEMORYVIEW readonly");
    std::uint64_t items = 0;
    checked(at, [&] { items = nd_nbytes(array.shape, 1); });
    DType dtype = format_dtype(array.format);
    if (dtype.itemsize == 0) {  // a format that is not looked into: the bytes say how large its items are
      if (items != 0 && array.data.nbytes % items != 0) Reader::fail_at(at, cat("MEMORYVIEW: ", array.data.nbytes, " bytes for ", items, " items"));
      dtype.itemsize = items == 0 ? 0 : array.data.nbytes / items;
      if (dtype.itemsize > INT32_MAX) Reader::fail_at(at, "MEMORYVIEW: item size is too large");
    }
    checked(at, [&] {
      std::uint64_t const nbytes = nd_nbytes(array.shape, dtype.itemsize);
      expects(nbytes == array.data.nbytes, ErrorKind::malformed,
              [&] { return cat("MEMORYVIEW: ", array.data.nbytes, " bytes, shape and format need ", nbytes); });
    });
    array.strides = nd_strides(array.shape, dtype.itemsize, false);
    array.dtype = std::make_shared<DType const>(std::move(dtype));
    leaf(ValueKind::memoryview, add_array(std::move(array)), slot, memo);
  }

  /// The dtype of a format with one letter, native sizes; `V` without a size for any other.
  static DType format_dtype(std::string_view format) {
    if (format.size() == 2 && (format[0] == '@' || format[0] == '=' || format[0] == '<')) format.remove_prefix(1);
    if (format.size() == 1) {
      switch (format[0]) {
        case '?': return DType::of<bool>();
        case 'b': return DType::of<signed char>();
        case 'B':
        case 'c': return DType::of<unsigned char>();
        case 'h': return DType::of<short>();
        case 'H': return DType::of<unsigned short>();
        case 'i': return DType::of<int>();
        case 'I': return DType::of<unsigned>();
        case 'f': return DType::of<float>();
        case 'd': return DType::of<double>();
        case 'q': return DType::of<long long>();
        case 'Q': return DType::of<unsigned long long>();
        default: break;  // l and L have another size behind '<' and '='; the bytes decide
      }
    }
    return {};
  }

  void parse_array(Reader& reader, std::uint32_t slot, std::size_t n, std::size_t at, std::uint32_t memo) {
    ArrayNode array;
    array.dtype = dtype(reader, false);
    array.data = data(reader, "ARRAY");
    array.shape = shape(reader, "ARRAY shape");
    std::uint64_t const flags = n >= 4 ? reader.count("ARRAY flags", 3) : 0;
    array.readonly = (flags & array_flags::readonly) != 0;
    std::uint64_t const itemsize = array.dtype->itemsize;
    if (n >= 5 && !skip_nil(reader)) {
      std::size_t const strides_at = reader.offset();
      std::size_t const count = reader.array("ARRAY strides");
      if (count != array.shape.size()) Reader::fail_at(strides_at, cat("ARRAY strides: ", count, ", the shape has ", array.shape.size(), " dimensions"));
      for (std::size_t i = 0; i < count; ++i) array.strides.push_back(reader.integer("ARRAY strides"));
      if (n >= 6) array.offset = reader.count("ARRAY offset", limits::payload_nbytes);
      checked(at, [&] { check_strides(array.shape, array.strides, itemsize, array.offset, array.data.nbytes); });
    } else {
      if (n >= 6 && reader.count("ARRAY offset", limits::payload_nbytes) != 0) Reader::fail_at(at, "ARRAY: an offset without strides");
      checked(at, [&] {
        std::uint64_t const nbytes = nd_nbytes(array.shape, itemsize);
        expects(nbytes == array.data.nbytes, ErrorKind::malformed,
                [&] { return cat("ARRAY: ", array.data.nbytes, " bytes, shape and dtype need ", nbytes); });
      });
      array.strides = nd_strides(array.shape, itemsize, (flags & array_flags::fortran) != 0);
    }
    leaf(ValueKind::array, add_array(std::move(array)), slot, memo);
  }

  /// UTF-8 that allows lone surrogates (three bytes each).
  static void check_text(std::span<std::byte const> bytes, std::size_t offset) {
    std::string_view text(reinterpret_cast<char const*>(bytes.data()), bytes.size());
    while (!text.empty()) {
      std::size_t const surrogate = text.find('\xed');
      if (surrogate == std::string_view::npos) break;
      bool const lone = text.size() - surrogate >= 3 && static_cast<unsigned char>(text[surrogate + 1]) >= 0xa0 &&
                        static_cast<unsigned char>(text[surrogate + 1]) <= 0xbf && (static_cast<unsigned char>(text[surrogate + 2]) & 0xc0) == 0x80;
      std::size_t const upto = lone ? surrogate : std::min(surrogate + 3, text.size());
      check_utf8(text.substr(0, upto), offset, "TEXT");
      text.remove_prefix(lone ? surrogate + 3 : upto);
    }
    check_utf8(text, offset, "TEXT");
  }

  Message message_;
  std::optional<Container> container_;
  Resource* resource_;
  Header header_;
  mutable std::mutex mutex_;  // of payloads_ and aligned_
  mutable Payloads payloads_;
  mutable std::unordered_map<std::byte const*, Buffer> aligned_;
  std::vector<Node> nodes_;  // 0: None, 1: False, 2: True
  std::vector<std::uint32_t> children_;
  std::vector<std::uint32_t> key_nodes_;  // the first of each shape
  std::vector<ArrayNode> arrays_;
  // While parsing:
  std::vector<Open> open_;
  std::vector<std::uint32_t> memo_;
  std::unordered_map<std::string_view, std::shared_ptr<DType const>> dtypes_by_text_;
  std::vector<std::shared_ptr<DType const>> table_dtypes_;  // of meta !dtypes, once asked for
};

}  // namespace detail

using detail::Node;
namespace flags = detail::node_flags;

Value::Value() = default;

Value Value::open(Message message, Resource& resource, std::optional<std::uint64_t> most_nbytes) {
  return detail::Document::open(std::make_shared<detail::Document>(std::move(message), std::nullopt, resource, most_nbytes));
}

Value Value::open(Container container, Resource& resource, std::optional<std::uint64_t> most_nbytes) {
  Message message = container.message(Check::lazy);
  // A compressed frame is read when the message is opened; so it is checked then.
  Header const header = Header::parse(message.header.bytes(), message.frames.size());
  for (std::size_t i = 0; i < header.frame_codec.size() && i < container.nframes(); ++i) {
    if (!header.frame_codec[i].empty()) container.check_frame(i);
  }
  return detail::Document::open(std::make_shared<detail::Document>(std::move(message), std::move(container), resource, most_nbytes));
}

ValueKind Value::kind() const noexcept { return document_ == nullptr ? ValueKind::none : document_->node(node_).kind; }

bool Value::is_floats() const noexcept { return kind() == ValueKind::array && (document_->node(node_).flags & flags::floats) != 0; }

bool Value::is_shared() const noexcept { return document_ != nullptr && (document_->node(node_).flags & flags::shared) != 0; }

void Value::wrong(std::string_view wanted) const {
  if (kind() == ValueKind::error) raise(ErrorKind::failed, cat("the sender could not encode this value: ", get_text()));
  raise(ErrorKind::malformed, cat(to_string(kind()), " where ", wanted, " is needed"));
}

namespace {

/// An item of a plain dtype as a number, in this machine's byte order.
struct Number {
  enum class Is : std::uint8_t { nothing, boolean, signed_, unsigned_, real, complex } is = Is::nothing;
  std::int64_t integer = 0;
  std::uint64_t natural = 0;
  std::complex<double> complex;
};

double half(std::uint16_t bits) noexcept {
  int const exponent = (bits >> 10) & 0x1f;
  int const mantissa = bits & 0x3ff;
  double value = exponent == 0    ? std::ldexp(mantissa, -24)
                 : exponent == 31 ? (mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN())
                                  : std::ldexp(mantissa + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

template <class T>
T load(std::span<std::byte const> bytes, bool swap) noexcept {
  std::byte raw[sizeof(T)];
  std::memcpy(raw, bytes.data(), sizeof(T));
  if (swap) std::reverse(raw, raw + sizeof(T));
  T value;
  std::memcpy(&value, raw, sizeof(T));
  return value;
}

double load_real(std::span<std::byte const> bytes, bool swap) noexcept {
  switch (bytes.size()) {
    case 2: return half(load<std::uint16_t>(bytes, swap));
    case 4: return load<float>(bytes, swap);
    case 8: return load<double>(bytes, swap);
    default: return static_cast<double>(load<long double>(bytes, swap));
  }
}

Number number_of(DType const& dtype, std::span<std::byte const> bytes) noexcept {
  Number number;
  if (dtype.form != DType::Form::plain) return number;
  bool const swap = dtype.order == '>';
  switch (dtype.kind) {
    case 'b':
      number.is = Number::Is::boolean;
      number.natural = bytes[0] != std::byte{0} ? 1 : 0;
      return number;
    case 'i':
      number.is = Number::Is::signed_;
      number.integer = bytes.size() == 1   ? load<std::int8_t>(bytes, swap)
                       : bytes.size() == 2 ? load<std::int16_t>(bytes, swap)
                       : bytes.size() == 4 ? load<std::int32_t>(bytes, swap)
                                           : load<std::int64_t>(bytes, swap);
      return number;
    case 'u':
      number.is = Number::Is::unsigned_;
      number.natural = bytes.size() == 1   ? load<std::uint8_t>(bytes, swap)
                       : bytes.size() == 2 ? load<std::uint16_t>(bytes, swap)
                       : bytes.size() == 4 ? load<std::uint32_t>(bytes, swap)
                                           : load<std::uint64_t>(bytes, swap);
      return number;
    case 'f':
      number.is = Number::Is::real;
      number.complex = load_real(bytes, swap);
      return number;
    case 'c':
      number.is = Number::Is::complex;
      number.complex = {load_real(bytes.first(bytes.size() / 2), swap), load_real(bytes.subspan(bytes.size() / 2), swap)};
      return number;
    default: return number;
  }
}

}  // namespace

bool Value::get_bool() const {
  if (kind() == ValueKind::boolean) return document_->node(node_).integer != 0;
  if (kind() == ValueKind::scalar) {
    auto const& array = document_->array(document_->node(node_).which);
    Number const number = number_of(*array.dtype, array.data.bytes);
    if (number.is == Number::Is::boolean) return number.natural != 0;
  }
  wrong("bool");
}

std::int64_t Value::get_signed(std::int64_t least, std::int64_t most) const {
  auto const outside = [&](auto value) { raise(ErrorKind::malformed, cat("int ", value, " is not in ", least, " … ", most)); };
  std::int64_t value = 0;
  if (kind() == ValueKind::integer) {
    Node const& node = document_->node(node_);
    if ((node.flags & flags::big) != 0) outside(static_cast<std::uint64_t>(node.integer));
    value = node.integer;
  } else if (kind() == ValueKind::bigint) {
    outside(integer_text());
  } else if (kind() == ValueKind::scalar) {
    auto const& array = document_->array(document_->node(node_).which);
    Number const number = number_of(*array.dtype, array.data.bytes);
    if (number.is == Number::Is::unsigned_) {
      if (number.natural > INT64_MAX) outside(number.natural);
      value = static_cast<std::int64_t>(number.natural);
    } else if (number.is == Number::Is::signed_) {
      value = number.integer;
    } else {
      wrong("int");
    }
  } else {
    wrong("int");
  }
  if (value < least || value > most) outside(value);
  return value;
}

std::uint64_t Value::get_unsigned(std::uint64_t most) const {
  std::uint64_t value = 0;
  if (kind() == ValueKind::integer && (document_->node(node_).flags & flags::big) != 0) {
    value = static_cast<std::uint64_t>(document_->node(node_).integer);
  } else if (kind() == ValueKind::scalar) {
    auto const& array = document_->array(document_->node(node_).which);
    Number const number = number_of(*array.dtype, array.data.bytes);
    value = number.is == Number::Is::unsigned_ ? number.natural : static_cast<std::uint64_t>(get_signed(0, INT64_MAX));
  } else {
    value = static_cast<std::uint64_t>(get_signed(0, INT64_MAX));
  }
  if (value > most) raise(ErrorKind::malformed, cat("int ", value, " is not in 0 … ", most));
  return value;
}

double Value::get_real() const {
  if (kind() == ValueKind::real) return document_->node(node_).real;
  if (kind() == ValueKind::integer) {
    Node const& node = document_->node(node_);
    return (node.flags & flags::big) != 0 ? static_cast<double>(static_cast<std::uint64_t>(node.integer)) : static_cast<double>(node.integer);
  }
  if (kind() == ValueKind::scalar) {
    auto const& array = document_->array(document_->node(node_).which);
    Number const number = number_of(*array.dtype, array.data.bytes);
    if (number.is == Number::Is::real) return number.complex.real();
    if (number.is == Number::Is::signed_) return static_cast<double>(number.integer);
    if (number.is == Number::Is::unsigned_) return static_cast<double>(number.natural);
  }
  wrong("float");
}

std::complex<double> Value::get_complex() const {
  if (kind() == ValueKind::complex) {
    Node const& node = document_->node(node_);
    return {node.complex.re, node.complex.im};
  }
  if (kind() == ValueKind::scalar) {
    auto const& array = document_->array(document_->node(node_).which);
    Number const number = number_of(*array.dtype, array.data.bytes);
    if (number.is == Number::Is::complex) return number.complex;
  }
  return get_real();
}

std::string_view Value::get_text() const {
  if (kind() != ValueKind::str && kind() != ValueKind::text && kind() != ValueKind::error) wrong("str");
  Node const& node = document_->node(node_);
  auto const bytes = document_->header_bytes(node.span.offset, node.span.size);
  return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}

std::span<std::byte const> Value::get_bytes() const {
  if (kind() == ValueKind::memoryview) return array().bytes();
  if (kind() != ValueKind::bytes && kind() != ValueKind::bytearray && kind() != ValueKind::pickle && kind() != ValueKind::device) wrong("bytes");
  Node const& node = document_->node(node_);
  if ((node.flags & flags::in_line) != 0) return document_->header_bytes(node.span.offset, node.span.size);
  return document_->payload(node.which);
}

std::string Value::integer_text() const {
  if (kind() == ValueKind::integer) {
    Node const& node = document_->node(node_);
    return (node.flags & flags::big) != 0 ? cat(static_cast<std::uint64_t>(node.integer)) : cat(node.integer);
  }
  if (kind() != ValueKind::bigint) wrong("int");
  Node const& node = document_->node(node_);
  auto const bytes = document_->header_bytes(node.span.offset, node.span.size);
  // Decimal digits cost the square of the length; longer ones than this are written in base 16.
  constexpr std::size_t most = 4096;
  bool const negative = (bytes.back() & std::byte{0x80}) != std::byte{0};
  std::vector<std::uint32_t> limbs((bytes.size() + 3) / 4 + 1, negative ? UINT32_MAX : 0);
  std::memcpy(limbs.data(), bytes.data(), bytes.size());
  if (negative) {
    std::uint64_t carry = 1;
    for (std::uint32_t& limb : limbs) {
      carry += static_cast<std::uint32_t>(~limb);
      limb = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
  }
  std::string out;
  std::uint32_t const base = bytes.size() > most ? 16 : 10;
  if (base == 16) {
    for (std::uint32_t limb : limbs) {
      for (int i = 0; i < 8; ++i, limb >>= 4) out += "0123456789abcdef"[limb & 15];
    }
    while (out.size() > 1 && out.back() == '0') out.pop_back();
    out += "x0";
  } else {
    while (!limbs.empty()) {
      std::uint64_t rest = 0;
      for (std::size_t i = limbs.size(); i-- > 0;) {
        rest = (rest << 32) | limbs[i];
        limbs[i] = static_cast<std::uint32_t>(rest / 1'000'000'000);
        rest %= 1'000'000'000;
      }
      while (!limbs.empty() && limbs.back() == 0) limbs.pop_back();
      for (int i = 0; i < 9; ++i, rest /= 10) out += static_cast<char>('0' + rest % 10);
    }
    while (out.size() > 1 && out.back() == '0') out.pop_back();
  }
  if (negative) out += '-';
  std::reverse(out.begin(), out.end());
  return out;
}

std::size_t Value::size() const noexcept {
  switch (kind()) {
    case ValueKind::list:
    case ValueKind::tuple:
    case ValueKind::set:
    case ValueKind::frozenset:
    case ValueKind::object:
    case ValueKind::object_array:
    case ValueKind::slice:
    case ValueKind::pickle:
    case ValueKind::range: return document_->node(node_).span.count;
    case ValueKind::dict: {
      Node const& node = document_->node(node_);
      return (node.flags & flags::record) != 0 ? node.span.count : node.span.count / 2;
    }
    default: return 0;
  }
}

Value Value::operator[](std::size_t i) const {
  switch (kind()) {
    case ValueKind::list:
    case ValueKind::tuple:
    case ValueKind::set:
    case ValueKind::frozenset:
    case ValueKind::object_array:
    case ValueKind::slice:
    case ValueKind::pickle:
    case ValueKind::range: break;
    default: wrong("a sequence");
  }
  expects(i < size(), ErrorKind::malformed, [&] { return cat("element ", i, " of ", size()); });
  return at(document_->child(document_->node(node_), i));
}

std::pair<Value, Value> Value::pair(std::size_t i) const {
  if (kind() != ValueKind::dict && kind() != ValueKind::object) wrong("a dict or object");
  expects(i < size(), ErrorKind::malformed, [&] { return cat("pair ", i, " of ", size()); });
  Node const& node = document_->node(node_);
  if ((node.flags & flags::record) != 0) return {at(document_->key_node(node.which, i)), at(document_->child(node, i))};
  return {at(document_->child(node, 2 * i)), at(document_->child(node, 2 * i + 1))};
}

std::string_view Value::key(std::size_t i) const {
  Value const key = pair(i).first;
  return key.kind() == ValueKind::str ? key.get_text() : std::string_view{};
}

std::optional<Value> Value::get(std::string_view key) const {
  if (kind() == ValueKind::reduce || kind() == ValueKind::instance) {
    Value const state = this->state();
    if (state.kind() == ValueKind::tuple && state.size() == 2) {  // (dict or None, dict of slots)
      for (int i : {1, 0}) {
        Value const part = state[i];
        if (part.kind() != ValueKind::dict) continue;
        if (auto found = part.get(key)) return found;
      }
      return std::nullopt;
    }
    return state.kind() == ValueKind::dict ? state.get(key) : std::nullopt;
  }
  if (kind() != ValueKind::dict && kind() != ValueKind::object) wrong("a dict or object");
  Node const& node = document_->node(node_);
  if ((node.flags & flags::record) != 0) {
    auto const& keys = document_->header().shapes[node.which].keys;
    for (std::size_t i = keys.size(); i-- > 0;) {
      if (keys[i] == key) return at(document_->child(node, i));
    }
    return std::nullopt;
  }
  for (std::size_t i = node.span.count / 2; i-- > 0;) {
    Value const candidate = at(document_->child(node, 2 * i));
    if (candidate.kind() == ValueKind::str && candidate.get_text() == key) return at(document_->child(node, 2 * i + 1));
  }
  return std::nullopt;
}

Value Value::operator[](std::string_view key) const {
  if (auto found = get(key)) return *std::move(found);
  raise(ErrorKind::malformed, cat("no key ", key));
}

std::string_view Value::name() const {
  std::uint32_t which = 0;
  switch (kind()) {
    case ValueKind::object: which = *document_->header().shapes[document_->node(node_).which].cls; break;
    case ValueKind::name:
    case ValueKind::reduce:
    case ValueKind::instance:
    case ValueKind::adapted: which = document_->node(node_).which; break;
    default: wrong("a value with a name");
  }
  return document_->header().names[which].text;
}

std::span<std::byte const> Value::name_by_value() const {
  (void)name();
  Node const& node = document_->node(node_);
  return document_->header().names[kind() == ValueKind::object ? *document_->header().shapes[node.which].cls : node.which].bytes;
}

Value Value::part(std::size_t i, std::string_view what) const {
  if (kind() != ValueKind::reduce && kind() != ValueKind::instance) wrong(what);
  return at(document_->child(document_->node(node_), i));
}

Value Value::args() const { return part(detail::args_at, "a value with arguments"); }
Value Value::kwargs() const { return part(detail::kwargs_at, "a value with arguments"); }
Value Value::state() const { return part(detail::state_at, "a value with state"); }
Value Value::list_items() const { return part(detail::items_at, "a value with items"); }
Value Value::dict_items() const { return part(detail::pairs_at, "a value with items"); }
Value Value::state_setter() const { return part(detail::setter_at, "a value with state"); }

Value Value::inner() const {
  if (kind() != ValueKind::adapted) wrong("an adapted value");
  return at(document_->child(document_->node(node_), 0));
}

NdView Value::array() const {
  if (kind() != ValueKind::array && kind() != ValueKind::scalar && kind() != ValueKind::memoryview) wrong("an array");
  auto const& array = document_->array(document_->node(node_).which);
  NdView view = NdView::strided(array.dtype, document_->bytes(array.data, Resource::alignment), array.shape, array.strides, array.offset, document_);
  view.set_readonly(array.readonly);
  return view;
}

DType const& Value::dtype() const {
  switch (kind()) {
    case ValueKind::array:
    case ValueKind::scalar:
    case ValueKind::memoryview:
    case ValueKind::object_array:
    case ValueKind::dtype: return *document_->array(document_->node(node_).which).dtype;
    default: wrong("a value with a dtype");
  }
}

std::span<std::uint64_t const> Value::shape() const {
  switch (kind()) {
    case ValueKind::array:
    case ValueKind::scalar:
    case ValueKind::memoryview:
    case ValueKind::object_array: return document_->array(document_->node(node_).which).shape;
    default: wrong("an array");
  }
}

bool Value::readonly() const noexcept {
  switch (kind()) {
    case ValueKind::array:
    case ValueKind::memoryview:
    case ValueKind::object_array: return document_->array(document_->node(node_).which).readonly;
    default: return true;
  }
}

std::string_view Value::format() const {
  if (kind() != ValueKind::memoryview) wrong("a memoryview");
  return document_->array(document_->node(node_).which).format;
}

std::uint64_t Value::message_nbytes() const noexcept { return document_ == nullptr ? 0 : document_->nbytes(); }

ArrowView Value::arrow() const {
  if (kind() != ValueKind::arrow) wrong("Arrow data");
  Node const& node = document_->node(node_);
  // Read from the header's beginning, so that errors name the byte offset in it.
  msgpack::Reader reader(document_->header_bytes(0, node.span.offset + node.span.size));
  reader.seek(node.span.offset);
  auto const document = document_;
  return ArrowView(decode_arrow(
      reader, node.which, document_->header(), [document](std::uint32_t p, std::size_t) { return document->payload(p); }, document_));
}

}  // namespace transload
