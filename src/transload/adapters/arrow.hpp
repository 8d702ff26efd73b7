#pragma once
/// Arrow data as the Arrow C data interface has it: its C structs, the types, the tree of fields. No libarrow is needed.
///
/// arrow_encode.hpp writes arrays into a message (borrowed, slices cut), arrow_decode.hpp reads and checks them,
/// arrow_view.hpp gives C++ programs typed access. docs/format.md, "Tables", has the node.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Source: https://arrow.apache.org/docs/format/CDataInterface.html and CStreamInterface.html; the guards let this header
// stand beside Arrow's own arrow/c/abi.h, nanoarrow's and libcudf's.
extern "C" {

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
  char const* format;
  char const* name;
  char const* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  void const** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};

#endif  // ARROW_C_DATA_INTERFACE

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
  char const* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};

#endif  // ARROW_C_STREAM_INTERFACE

}  // extern "C"

namespace transload {

/// Nesting of Arrow types, the root included. Arrow's own importer stops at the same depth.
inline constexpr std::size_t arrow_depth = 64;

/// What an ARROW node stands for.
enum class ArrowKind : std::uint8_t {
  array,    ///< one chunk
  chunked,  ///< any number of chunks
  batch,    ///< one chunk, a struct without nulls: named columns of one length
  table,    ///< any number of batches of one schema
  schema,   ///< no chunk
};

/// The kind's name on the wire.
[[nodiscard]] std::string_view to_string(ArrowKind kind) noexcept;
[[nodiscard]] std::optional<ArrowKind> try_arrow_kind(std::string_view name) noexcept;

/// How the buffers of a type are laid out. Source: Arrow columnar format, "Physical memory layout".
enum class ArrowLayout : std::uint8_t {
  null,          ///< no buffers
  boolean,       ///< validity, bits
  fixed,         ///< validity, items of `item_nbytes`; dictionary indices too
  binary,        ///< validity, offsets of `item_nbytes`, bytes
  view,          ///< validity, views of 16 bytes, any number of byte buffers, their lengths
  list,          ///< validity, offsets of `item_nbytes`; one child. Maps too
  list_view,     ///< validity, offsets and sizes of `item_nbytes`; one child
  fixed_list,    ///< validity; one child, `list_size` items a row
  struct_,       ///< validity; children of the same length
  sparse_union,  ///< type ids; children of the same length
  dense_union,   ///< type ids, offsets into the children
  run_end,       ///< no buffers; children run_ends, values
};

/// A format string of the C data interface, parsed strictly.
struct ArrowFormat {
  ArrowLayout layout = ArrowLayout::null;
  std::uint32_t item_nbytes = 0;
  std::uint32_t align = 1;          ///< of the items (or offsets) in memory, bytes
  bool text = false;                ///< binary and view: the bytes are UTF-8
  bool map = false;                 ///< list: the child is a struct of key and value
  bool integer = false;             ///< fixed: can index a dictionary
  bool is_signed = false;           ///< fixed and integer
  std::int64_t list_size = 0;       ///< fixed_list
  std::vector<std::int8_t> type_ids;  ///< unions: the id of each child

  /// @throws Error{unsupported} for a format that is none of the specification's.
  [[nodiscard]] static ArrowFormat parse(std::string_view format);
};

/// A node of the schema: type, name, flags and metadata, owned.
struct ArrowField {
  ArrowFormat type;
  std::string format;
  std::string name;
  bool has_name = false;
  std::int64_t flags = 0;
  std::string metadata;  ///< as the C interface encodes it; empty: none
  std::vector<ArrowField> children;
  std::unique_ptr<ArrowField> dictionary;  ///< then `type` is that of the indices

  /// Copies a C schema. `schema` is not released.
  ///
  /// @throws Error{unsupported} for unknown formats, wrong child counts, text that is not UTF-8, nesting beyond `arrow_depth`.
  [[nodiscard]] static ArrowField from_c(ArrowSchema const& schema);

  /// Fills `out`, which owns copies of all it points to.
  void export_to(ArrowSchema* out) const;

  /// What about children, dictionary and flags contradicts the format; empty when nothing does.
  [[nodiscard]] std::string why_wrong() const;

  [[nodiscard]] bool nullable() const noexcept { return (flags & ARROW_FLAG_NULLABLE) != 0; }
};

/// A node of an array: the buffers are borrowed.
struct ArrowColumn {
  std::int64_t length = 0;
  std::int64_t null_count = 0;  ///< −1: not counted
  std::int64_t offset = 0;      ///< rows before the first one shown, in every buffer (and in the children of structs and sparse unions)
  std::vector<std::span<std::byte const>> buffers;  ///< an absent validity bitmap has no data
  std::vector<ArrowColumn> children;
  std::unique_ptr<ArrowColumn> dictionary;
};

}  // namespace transload
