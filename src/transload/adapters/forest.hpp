#pragma once
/// Forests of decision trees as treelite writes them: the bytes of `TreeliteSerializeModelToBytes`, read, checked and written here without treelite.
///
/// treelite believes those bytes, and reads and writes them field by field. `read_forest` looks at all of them, so that neither treelite nor a
/// library that loads its models (nvForest, cuML) follows a child or an offset out of its array; `to_treelite` hands the arrays over by treelite's
/// buffer protocol, without a copy on its side, and `from_treelite` gathers them into one block. docs/format.md, "Forests", has the layout.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transload/memory/buffer.hpp"
#include "transload/memory/resource.hpp"

namespace transload {

struct TreeliteVersion {
  std::int32_t major_version = 0;
  std::int32_t minor_version = 0;
  std::int32_t patch = 0;
};

/// One field of a model: a scalar, or an array of `n` items.
struct ForestField {
  std::byte const* data = nullptr;  ///< at any address
  std::uint64_t n = 0;
  std::uint32_t itemsize = 0;  ///< bytes
  char const* format = "";     ///< as treelite has it: "=l", "=d", …
};

/// A forest whose fields lie in bytes that somebody else keeps.
struct Forest {
  TreeliteVersion version;
  bool doubles = false;  ///< thresholds and leaves are of 8 bytes, else of 4
  std::uint64_t ntrees = 0;
  std::uint64_t nnodes = 0;
  std::int32_t nfeatures = 0;
  std::uint8_t task = 0;  ///< treelite's TaskType
  std::vector<ForestField> fields;  ///< in treelite's order
};

/// Reads a forest, and looks at all of it: a forest that this returns is one that can be walked.
///
/// @param running the version that will load it, if that is known: treelite takes its own major version, and newer minor ones with a warning.
/// @throws Error{malformed} with the offset (bytes) and the field; Error{unsupported} for a version that is not taken, and for fields of a later one.
[[nodiscard]] Forest read_forest(std::span<std::byte const> bytes, std::optional<TreeliteVersion> running = std::nullopt);

/// Gives so many bytes to write to.
using Room = std::function<std::span<std::byte>(std::size_t nbytes)>;

/// Writes a forest without what only training and inspection ask for (data counts, hessians, gains), to where `room(nbytes)` says: less to
/// parse for who loads it to predict.
void write_for_prediction(Forest const& forest, Room const& room);

/// A field as treelite's C API has it (`TreelitePyBufferFrame`).
struct TreeliteFrame {
  void* buf;
  char* format;
  std::size_t itemsize;
  std::size_t nitem;
};

/// The functions of treelite's C API that are used here: of a program that is linked with it, or of a library that is opened.
struct Treelite {
  int (*serialize)(void* model, TreeliteFrame** frames, std::size_t* nframes) = nullptr;      ///< TreeliteSerializeModelToPyBuffer
  int (*deserialize)(TreeliteFrame* frames, std::size_t nframes, void** model) = nullptr;     ///< TreeliteDeserializeModelFromPyBuffer
  int (*free_model)(void* model) = nullptr;                                                   ///< TreeliteFreeModel
  char const* (*last_error)() = nullptr;                                                      ///< TreeliteGetLastError

  /// Opens a library, for good.
  ///
  /// @throws Error{unsupported} where it is not there, or has not these functions.
  [[nodiscard]] static Treelite open(std::string const& library);
};

/// The bytes of a model, in a block of `resource`, in one pass over its arrays.
///
/// @throws Error{failed} what treelite says.
[[nodiscard]] Buffer from_treelite(Treelite const& treelite, void* model, Resource& resource = default_resource());
/// The same, to where `room(nbytes)` says.
void from_treelite(Treelite const& treelite, void* model, Room const& room);

/// A model of treelite's and the block that its arrays lie in. The model must be freed first, by `Treelite::free_model`.
struct TreeliteModel {
  void* handle = nullptr;
  Buffer block;
};

/// A model of a forest that was read, whose arrays lie aligned in a block of `resource`.
///
/// @throws Error{failed} what treelite says.
[[nodiscard]] TreeliteModel to_treelite(Treelite const& treelite, Forest const& forest, Resource& resource = default_resource());

}  // namespace transload
