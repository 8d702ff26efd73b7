#include "transload/adapters/place.hpp"

#include <vector>

#include "transload/base/error.hpp"
#include "transload/message/op.hpp"

namespace transload {

namespace {

using msgpack::Reader;
using msgpack::Token;
using msgpack::Type;

/// Deeper places are cut; the walk is recursive and only words come out of it.
constexpr std::size_t depth_in_words = 500;
/// Parts of a path that are shown at its beginning, and as many at its end.
constexpr std::size_t parts_in_words = 20;

/// Reads nodes in order, keeping the path, until it is behind the byte that is asked for.
class Walk {
 public:
  Walk(std::span<std::byte const> bytes, Header const& header) : header_(header), reader_(bytes) {}

  std::string place_of(std::size_t offset) {
    // Which node is the last that begins is known when the next one does, so its path is put together by a second walk.
    target_ = offset;
    run();
    target_ = last_;
    in_words_ = true;
    run();
    return found_.empty() ? "obj" : found_;
  }

  std::optional<std::size_t> use_of(std::size_t name) {
    name_ = name;
    run();
    return use_;
  }

 private:
  struct Done {};

  void run() {
    reader_.seek(header_.root_offset);
    depth_ = 0;
    path_.clear();
    marked_.clear();
    try {
      node();
    } catch (Done const&) {
    } catch (Error const&) {
    }
  }

  void begin(std::size_t at) {
    if (name_) return;
    if (at > target_) throw Done{};
    last_ = at;
    if (!in_words_ || at != target_) return;
    found_ = "obj";
    for (std::size_t i = 0; i < path_.size(); ++i) {
      bool const shown = i < parts_in_words || path_.size() - i <= parts_in_words;
      if (shown) found_ += path_[i];
      if (i == parts_in_words && !shown) found_ += "…";
    }
    throw Done{};
  }

  void uses(std::size_t at, std::uint64_t name) {
    if (name_ && *name_ == name) {
      use_ = at;
      throw Done{};
    }
  }

  template <class Body>
  void inside(std::string part, Body&& body) {
    path_.push_back(std::move(part));
    body();
    path_.pop_back();
  }

  void nodes(std::size_t n, std::string_view before = "") {
    for (std::size_t i = 0; i < n; ++i) inside(cat(before, "[", i, "]"), [&] { node(); });
  }

  static std::string in_words(Token const& token) {
    switch (token.type) {
      case Type::str: return cat("['", token.text().substr(0, 80), "']");
      case Type::integer: return cat("[", token.integer, "]");
      case Type::nil: return "[None]";
      case Type::boolean: return token.boolean ? "[True]" : "[False]";
      default: return "[…]";
    }
  }

  /// The key that begins here in words, without passing it. Texts that were met before come as references.
  std::string key_in_words() {
    std::size_t const at = reader_.offset();
    Token token = reader_.next();
    std::string words = in_words(token);
    if (token.type == Type::array && token.size == 2) {
      auto const code = reader_.count("op", 0x7f);
      if (static_cast<Op>(code & 0x3f) == Op::value) {
        words = in_words(reader_.next());
      } else if (code == static_cast<std::uint8_t>(Op::ref)) {
        auto const number = reader_.count("REF number", UINT32_MAX);
        if (number < marked_.size() && !marked_[number].empty()) words = marked_[number];
      }
    }
    reader_.seek(at);
    return words;
  }

  void pair() {
    std::string const key = key_in_words();
    inside(".keys()", [&] { node(); });
    inside(key, [&] { node(); });
  }

  void node() {
    std::size_t const at = reader_.offset();
    begin(at);
    if (depth_ > depth_in_words) return reader_.skip();
    ++depth_;
    Token const token = reader_.next();
    if (token.type == Type::map) {
      for (std::size_t i = 0; i < token.size; ++i) pair();
    } else if (token.type == Type::array && token.size > 0) {
      tagged(at, token.size - 1);
    }
    --depth_;
  }

  void tagged(std::size_t at, std::size_t n) {
    auto const code = reader_.count("op", 0x7f);
    auto const op = static_cast<Op>(code & 0x3f);
    if ((code & mark) != 0) {
      marked_.emplace_back();
      if (op == Op::value && !reader_.next_is_map()) {
        std::size_t const value_at = reader_.offset();
        marked_.back() = in_words(reader_.next());
        reader_.seek(value_at);
      }
    }
    auto const rest = [&](std::size_t from) {
      for (std::size_t i = from; i < n; ++i) reader_.skip();
    };
    switch (op) {
      case Op::value:
        if (reader_.next_is_map()) {
          for (std::size_t i = reader_.map("VALUE"); i > 0; --i) pair();
        } else {
          reader_.skip();
        }
        return;
      case Op::list:
      case Op::tuple:
      case Op::set:
      case Op::frozenset: return nodes(n);
      case Op::last: {
        for (std::size_t i = 0; i < n; ++i) node();
        return;
      }
      case Op::slice:
      case Op::range: return nodes(n);
      case Op::record:
      case Op::object: {
        auto const shape = reader_.count("shape", UINT32_MAX);
        if (shape >= header_.shapes.size() || header_.shapes[shape].keys.size() + 1 != n) throw Done{};
        ShapeEntry const& entry = header_.shapes[shape];
        if (entry.cls) uses(at, *entry.cls);
        for (std::string_view key : entry.keys) {
          inside(op == Op::object ? cat(".", key) : cat("['", key, "']"), [&] { node(); });
        }
        return;
      }
      case Op::name: return uses(at, reader_.count("name", UINT32_MAX));
      case Op::reduce:
      case Op::new_:
      case Op::new_kw: {
        if (n < (op == Op::new_kw ? 3U : 2U)) throw Done{};
        uses(at, reader_.count("name", UINT32_MAX));
        nodes(reader_.array("arguments"), ".__reduce__()");
        std::size_t fields = n - 2;
        if (op == Op::new_kw) {
          for (std::size_t i = reader_.map("keyword arguments"); i > 0; --i) pair();
          --fields;
        }
        if (fields >= 1) node();
        if (fields >= 2) raw_nodes(false);
        if (fields >= 3) raw_nodes(true);
        if (fields >= 4) {
          if (reader_.peek() == 0xc0) return reader_.skip();
          uses(at, reader_.count("setter", UINT32_MAX));
        }
        return;
      }
      case Op::adapted:
        uses(at, reader_.count("name", UINT32_MAX));
        return node();
      case Op::object_array:
        if (n < 2) throw Done{};
        reader_.skip();
        reader_.skip();
        return nodes(n - 2);
      case Op::pickle:
        reader_.skip();
        for (std::size_t i = 1; i < n; ++i) node();
        return;
      default: return rest(0);
    }
  }

  void raw_nodes(bool pairs) {
    if (reader_.peek() == 0xc0) return reader_.skip();
    std::size_t const n = reader_.array("items");
    if (!pairs) return nodes(n);
    for (std::size_t i = 0; i < n; i += 2) pair();
  }

  Header const& header_;
  Reader reader_;
  std::size_t target_ = 0;
  std::size_t last_ = 0;   // the last node that begins at the target or before
  std::size_t depth_ = 0;
  bool in_words_ = false;
  std::optional<std::size_t> name_;
  std::optional<std::size_t> use_;
  std::string found_;
  std::vector<std::string> path_;
  std::vector<std::string> marked_;  // in words where it is a text or a number, by memo number
};

}  // namespace

std::string place_in_object(std::span<std::byte const> bytes, Header const& header, std::size_t offset) {
  return Walk(bytes, header).place_of(offset);
}

std::optional<std::size_t> first_use_of_name(std::span<std::byte const> bytes, Header const& header, std::size_t name) {
  return Walk(bytes, header).use_of(name);
}

}  // namespace transload
