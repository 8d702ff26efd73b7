/// Looking at decision trees before compiled code walks them: one pass over the nodes, as adapters/sklearn.py asks.
#include <cstring>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>

#include "bindings.hpp"
#include "py.hpp"
#include "transload/base/error.hpp"

namespace nb = nanobind;

namespace transload::py {

namespace {

/// An integer field of a node record.
struct Field {
  std::size_t offset = 0;
  std::size_t nbytes = 0;

  /// The value in the record at `node`, widened; 4-byte fields are unsigned.
  [[nodiscard]] std::int64_t at(std::byte const* node) const noexcept {
    if (nbytes == 8) {
      std::int64_t value = 0;
      std::memcpy(&value, node + offset, 8);
      return value;
    }
    if (nbytes == 4) {
      std::uint32_t value = 0;
      std::memcpy(&value, node + offset, 4);
      return value;
    }
    return static_cast<std::int64_t>(node[offset]);
  }
};

[[noreturn]] void refuse(std::string const& text) {
  throw nb::value_error(text.c_str());
}

/// Depth of the deepest node. A node without children has a left child of −1, or a `leaf` field that is not 0.
///
/// @throws nb::value_error unless each node but the first is the child of exactly one node before it, and each inner
/// node's feature is one of `n_features`: then every walk from the root ends, inside the tree.
std::int64_t check_tree(nb::handle nodes, std::size_t left_offset, std::size_t right_offset, std::size_t feature_offset, std::size_t child_nbytes,
                        std::int64_t leaf_offset, std::int64_t n_features) {
  std::size_t n = 0;
  std::vector<std::uint32_t> depth;
  std::uint32_t deepest = 0;
  try {
    BufferView const view(nodes.ptr(), PyBUF_STRIDED_RO);
    auto const itemsize = static_cast<std::size_t>(view->itemsize);
    Field const left{left_offset, child_nbytes};
    Field const right{right_offset, child_nbytes};
    Field const feature{feature_offset, 8};
    auto const fits = [&](Field const& field) { return itemsize >= field.nbytes && field.offset <= itemsize - field.nbytes; };
    if (view->ndim != 1 || view->shape[0] < 1 || view->shape[0] >= INT32_MAX || (child_nbytes != 4 && child_nbytes != 8) || !fits(left) ||
        !fits(right) || !fits(feature) || (leaf_offset >= 0 && !fits({static_cast<std::size_t>(leaf_offset), 1}))) {
      refuse("nodes: not a row of records with these fields");
    }
    n = static_cast<std::size_t>(view->shape[0]);
    auto const limit = static_cast<std::int64_t>(n);
    depth.assign(n, 0);
    auto const* node = static_cast<std::byte const*>(view->buf);
    std::size_t ninner = 0;
    for (std::size_t i = 0; i < n; ++i, node += view->strides[0]) {
      std::int64_t const children[2] = {left.at(node), right.at(node)};
      bool const inner = leaf_offset >= 0 ? node[leaf_offset] == std::byte{0} : children[0] != -1;
      if (!inner) continue;
      ++ninner;
      for (std::int64_t const child : children) {
        if (child <= static_cast<std::int64_t>(i) || child >= limit) {
          refuse(cat("node ", i, ": child ", child, ", one after it and below ", n, " is needed"));
        }
        std::uint32_t& level = depth[static_cast<std::size_t>(child)];
        if (level != 0) refuse(cat("node ", i, ": child ", child, " is the child of two"));
        level = depth[i] + 1;
        deepest = std::max(deepest, level);
      }
      if (std::int64_t const f = feature.at(node); f < 0 || f >= n_features) refuse(cat("node ", i, ": feature ", f, " of ", n_features));
    }
    if (2 * ninner + 1 != n) refuse(cat(ninner, " inner nodes in a tree of ", n));
  } catch (Raised const&) {
    throw nb::python_error();
  }
  return deepest;
}

}  // namespace

void bind_trees(nb::module_& module) {
  module.def("check_tree", &check_tree, nb::arg("nodes"), nb::arg("left"), nb::arg("right"), nb::arg("feature"), nb::arg("child_nbytes"),
             nb::arg("leaf"), nb::arg("n_features"),
             nb::sig("def check_tree(nodes: object, left: int, right: int, feature: int, child_nbytes: int, leaf: int, n_features: int) -> int"),
             "Depth of a tree of records, given the offsets of their fields; ValueError unless every walk from the root ends, inside the tree.");
}

}  // namespace transload::py
