#pragma once
/// Writing objects from C++: an encoder that writes node by node, and a tree for objects that are put together at run time.
/// docs/format.md, "Nodes".

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "transload/adapters/ndarray.hpp"
#include "transload/memory/buffer.hpp"
#include "transload/message/header.hpp"
#include "transload/message/message.hpp"
#include "transload/message/op.hpp"

namespace transload {

class Tree;

/// Writes one object, node by node, in the order of the format; `finish` makes the message of it.
///
/// Bytes and arrays are borrowed: they stay alive and unchanged until the message is gone, unless `keep` holds what keeps
/// them. Small ones are copied into the pack by `finish`. Not thread-safe.
class Encoder {
 public:
  explicit Encoder(std::optional<LayoutLimits> limits = {}, Resource& resource = default_resource()) : limits_(limits), resource_(&resource) {}

  void none() { writer_.root().nil(); }
  void boolean(bool value) { writer_.root().boolean(value); }
  void integer(std::int64_t value) { writer_.root().integer(value); }
  void unsigned_integer(std::uint64_t value) { writer_.root().unsigned_integer(value); }
  void real(double value) { writer_.root().real(value); }
  void complex(std::complex<double> value);
  /// @throws Error{unsupported} for text that is not UTF-8.
  void str(std::string_view text);
  void bytes(std::span<std::byte const> bytes);

  /// The head of a node with `n` elements behind its op, which the caller writes next. `marked` takes the next memo number.
  void begin(Op op, std::size_t n, bool marked = false);
  void begin_dict(std::size_t npairs, bool marked = false);
  /// The head of a dict with these str keys; the values follow. Keys that were used before cost nothing.
  void begin_record(std::span<std::string_view const> keys, bool marked = false);
  /// The head of an instance of class `cls` (`module:Class`) with these attributes; the values follow.
  void begin_object(std::string_view cls, std::span<std::string_view const> keys, bool marked = false);
  /// The head of what the adapter of `wire_name` makes of the node that follows.
  void begin_adapted(std::string_view wire_name, bool marked = false);
  /// A class or function itself.
  void name(std::string_view text, bool marked = false);
  /// The object with memo number `n`.
  void ref(std::uint32_t n);
  /// How many memo numbers were given.
  [[nodiscard]] std::uint32_t nmarked() const noexcept { return nmarked_; }

  /// An array: its bytes where they are in C or Fortran order or leave few gaps, a copy in C order otherwise.
  void array(NdView const& array, bool marked = false);
  void tree(Tree const& tree);

  /// Holds `keeper` as long as the message's frames.
  void keep(std::shared_ptr<void const> keeper) { keepers_.push_back(std::move(keeper)); }

  /// A name's number in the table of names; the same text gives the same number.
  [[nodiscard]] std::uint32_t name_index(std::string_view text);
  [[nodiscard]] HeaderWriter& writer() noexcept { return writer_; }

  /// The message. The encoder is done then.
  [[nodiscard]] Message finish();

 private:
  std::uint32_t shape_index(std::string_view cls, std::span<std::string_view const> keys);

  HeaderWriter writer_;
  std::optional<LayoutLimits> limits_;
  Resource* resource_;
  std::unordered_map<std::string, std::uint32_t> names_;
  std::unordered_map<std::string, std::uint32_t> shapes_;
  std::vector<std::shared_ptr<void const>> keepers_;
  std::uint32_t nmarked_ = 0;
};

/// Throws Error{unsupported} unless `text` is valid UTF-8, which a str on the wire is.
void expects_utf8(std::string_view text);

/// An object put together at run time: Python's built-in values, arrays, and instances by class name.
///
/// A handle: copies are the same object, so a tree used twice is one object on the other side, and a list can be made to
/// contain itself (which keeps it alive forever, as handles count). Not thread-safe.
class Tree {
 public:
  Tree() = default;  ///< None
  Tree(std::nullptr_t) {}
  Tree(std::same_as<bool> auto value) : value_(value) {}
  template <std::signed_integral T>
  Tree(T value) : value_(static_cast<std::int64_t>(value)) {}
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool>)
  Tree(T value) : value_(static_cast<std::uint64_t>(value)) {}
  Tree(std::floating_point auto value) : value_(static_cast<double>(value)) {}
  Tree(std::complex<double> value) : value_(value) {}
  Tree(std::string text) : value_(std::move(text)) {}
  Tree(std::string_view text) : value_(std::string(text)) {}
  Tree(char const* text) : value_(std::string(text)) {}
  Tree(NdView array);  ///< borrowed, with the array's keeper

  [[nodiscard]] static Tree bytes(std::span<std::byte const> bytes, std::shared_ptr<void const> keeper = {});  ///< borrowed
  [[nodiscard]] static Tree list(std::vector<Tree> items = {});
  [[nodiscard]] static Tree tuple(std::vector<Tree> items);
  [[nodiscard]] static Tree set(std::vector<Tree> items);
  [[nodiscard]] static Tree frozenset(std::vector<Tree> items);
  [[nodiscard]] static Tree dict(std::vector<std::pair<Tree, Tree>> pairs = {});
  [[nodiscard]] static Tree slice(Tree start, Tree stop, Tree step);
  [[nodiscard]] static Tree range(std::int64_t start, std::int64_t stop, std::int64_t step = 1);
  /// An instance of `module:Class` with attributes; neither `__init__` nor `__setattr__` runs when it is loaded.
  [[nodiscard]] static Tree object(std::string cls, std::vector<std::pair<std::string, Tree>> attributes);
  /// A class or function `module:qualified.name` itself.
  [[nodiscard]] static Tree name(std::string text);
  /// What `function(*args)` gives, with `state` set then (None: none).
  [[nodiscard]] static Tree reduce(std::string function, std::vector<Tree> args, Tree state = {});
  /// What the adapter of `wire_name` makes of `inner`.
  [[nodiscard]] static Tree adapted(std::string wire_name, Tree inner);

  /// Appends to a list or set.
  void append(Tree item);
  /// Sets a pair of a dict (appended; a key that is there already is not looked for).
  void set(Tree key, Tree value);

 private:
  friend class Encoder;

  struct Node {
    Op op = Op::list;
    bool dict = false;
    std::string text;               // class, name or wire name
    std::vector<std::string> keys;  // attributes
    std::vector<Tree> children;     // dict: key, value, …; reduce: arguments and state
    NdView array;
    std::span<std::byte const> bytes;
    std::shared_ptr<void const> keeper;
  };

  static Tree make(Op op, std::vector<Tree> children);

  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::complex<double>, std::string, std::shared_ptr<Node>> value_;
};

}  // namespace transload
