/// Looking at decision trees before compiled code walks them: one pass over the nodes, as adapters/sklearn.py asks.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>

#include "bindings.hpp"
#include "py.hpp"
#include "trees.hpp"
#include "transload/base/error.hpp"

namespace nb = nanobind;

namespace transload::py {

namespace {

template <class T>
T field(std::byte const* record, std::size_t offset) noexcept {
  T value;
  std::memcpy(&value, record + offset, sizeof(T));
  return value;
}

template <class Child, bool leaf_field>
bool is_inner(Nodes const& nodes, std::byte const* node) noexcept {
  if constexpr (leaf_field) return node[nodes.leaf] == std::byte{0};
  return field<Child>(node, nodes.left) != static_cast<Child>(-1);
}

/// The first thing that is wrong, in words.
template <class Child, bool leaf_field>
[[noreturn]] void say_what_is_wrong(Nodes const& nodes, std::int64_t n_features) {
  std::vector<bool> seen(nodes.n);
  std::size_t ninner = 0;
  std::byte const* node = nodes.first;
  auto const refuse = [](std::string const& text) { throw nb::value_error(text.c_str()); };
  for (std::size_t i = 0; i < nodes.n; ++i, node += nodes.stride) {
    if (!is_inner<Child, leaf_field>(nodes, node)) continue;
    ++ninner;
    for (std::size_t const side : {nodes.left, nodes.right}) {
      auto const child = static_cast<std::int64_t>(field<Child>(node, side));
      if (child <= static_cast<std::int64_t>(i) || child >= static_cast<std::int64_t>(nodes.n)) {
        refuse(cat("node ", i, ": child ", child, ", one after it and below ", nodes.n, " is needed"));
      }
      if (seen[static_cast<std::size_t>(child)]) refuse(cat("node ", i, ": child ", child, " is the child of two"));
      seen[static_cast<std::size_t>(child)] = true;
    }
    auto const feature = field<std::int64_t>(node, nodes.feature);
    if (feature < 0 || feature >= n_features) refuse(cat("node ", i, ": feature ", feature, " of ", n_features));
  }
  refuse(cat(ninner, " inner nodes in a tree of ", nodes.n));
  std::abort();
}

/// One pass without branches, for half of all nodes are leaves, in no order that a processor could guess (three times as
/// fast as with them). The children of leaves go to a place of their own behind the others.
template <class Child, bool leaf_field>
std::int64_t depth_of(Nodes const& nodes, std::int64_t n_features) {
  std::vector<std::uint32_t> depth(nodes.n + 1, 0);
  auto const n = static_cast<std::uint64_t>(nodes.n);
  auto const bound = static_cast<std::uint64_t>(n_features);
  std::uint64_t bad = 0;
  std::size_t ninner = 0;
  std::byte const* node = nodes.first;
  for (std::uint64_t i = 0; i < n; ++i, node += nodes.stride) {
    bool const inner = is_inner<Child, leaf_field>(nodes, node);
    ninner += inner ? 1 : 0;
    auto const left = static_cast<std::uint64_t>(static_cast<std::int64_t>(field<Child>(node, nodes.left)));
    auto const right = static_cast<std::uint64_t>(static_cast<std::int64_t>(field<Child>(node, nodes.right)));
    // left and right in i + 1 … n − 1, each by one comparison that wraps below.
    std::uint64_t const room = n - i - 1;
    bool const fits = (left - i - 1 < room) & (right - i - 1 < room) & (static_cast<std::uint64_t>(field<std::int64_t>(node, nodes.feature)) < bound);
    bad |= static_cast<std::uint64_t>(inner & !fits);
    bool const used = inner & fits;
    std::uint32_t const level = depth[i] + 1;
    depth[used ? left : n] = level;
    depth[used ? right : n] = level;
  }
  // As many children as nodes that need a parent: if none of those was left out, none was named twice.
  std::uint32_t deepest = 0;
  bool orphan = false;
  for (std::size_t i = 1; i < nodes.n; ++i) {
    orphan |= depth[i] == 0;
    deepest = std::max(deepest, depth[i]);
  }
  if (bad != 0 || orphan || 2 * ninner + 1 != nodes.n) say_what_is_wrong<Child, leaf_field>(nodes, n_features);
  return deepest;
}

Nodes nodes_of(BufferView const& view, std::size_t left, std::size_t right, std::size_t feature, std::size_t child_nbytes, std::int64_t leaf,
               std::int64_t n_features) {
  auto const itemsize = static_cast<std::size_t>(view->itemsize);
  auto const fits = [&](std::size_t offset, std::size_t nbytes) { return itemsize >= nbytes && offset <= itemsize - nbytes; };
  if (view->ndim != 1 || view->shape[0] < 1 || view->shape[0] >= INT32_MAX || (child_nbytes != 4 && child_nbytes != 8) || n_features < 0 ||
      !fits(left, child_nbytes) || !fits(right, child_nbytes) || !fits(feature, 8) || (leaf >= 0 && !fits(static_cast<std::size_t>(leaf), 1))) {
    throw nb::value_error("nodes: not a row of records with these fields");
  }
  return {.first = static_cast<std::byte const*>(view->buf),
          .stride = view->strides[0],
          .n = static_cast<std::size_t>(view->shape[0]),
          .left = left,
          .right = right,
          .feature = feature,
          .leaf = leaf >= 0 ? static_cast<std::size_t>(leaf) : 0,
          .child_nbytes = child_nbytes,
          .leaf_field = leaf >= 0};
}

void check_depth(std::int64_t depth, std::int64_t max_depth) {
  if (depth > max_depth) throw nb::value_error(cat("max_depth is ", max_depth, ", the nodes are ", depth, " deep").c_str());
}

void check_tree(nb::handle records, std::size_t left, std::size_t right, std::size_t feature, std::size_t child_nbytes, std::int64_t leaf,
                std::int64_t n_features, std::int64_t max_depth) {
  try {
    BufferView const view(records.ptr(), PyBUF_STRIDED_RO);
    Nodes const nodes = nodes_of(view, left, right, feature, child_nbytes, leaf, n_features);
    if (TreeChecks* const checks = TreeChecks::current()) return checks->add(nodes, n_features, max_depth, Ref::borrow(records.ptr()));
    check_depth(depth_of_tree(nodes, n_features), max_depth);
  } catch (Raised const&) {
    throw nb::python_error();
  }
}

thread_local TreeChecks* current_checks = nullptr;

/// Trees below this many nodes are looked at at once: a hand-over costs as much.
constexpr std::size_t later_from = 1000;
/// Trees that are handed over together: waking the thread for each cost a third of what it saved.
constexpr std::size_t batch = 8;

}  // namespace

std::int64_t depth_of_tree(Nodes const& nodes, std::int64_t n_features) {
  if (nodes.child_nbytes == 8) return nodes.leaf_field ? depth_of<std::int64_t, true>(nodes, n_features) : depth_of<std::int64_t, false>(nodes, n_features);
  return nodes.leaf_field ? depth_of<std::uint32_t, true>(nodes, n_features) : depth_of<std::uint32_t, false>(nodes, n_features);
}

TreeChecks::TreeChecks() : outer_(current_checks) { current_checks = this; }

TreeChecks::~TreeChecks() {
  current_checks = outer_;
  {
    std::lock_guard const lock(mutex_);
    jobs_.clear();
  }
  (void)settle();
}

TreeChecks* TreeChecks::current() noexcept { return current_checks; }

void TreeChecks::add(Nodes nodes, std::int64_t n_features, std::int64_t max_depth, Ref keep) {
  if (trusting) return;
  if (nodes.n < later_from) return check_depth(depth_of_tree(nodes, n_features), max_depth);
  kept_.push_back(std::move(keep));
  {
    std::lock_guard const lock(mutex_);
    jobs_.push_back({nodes, n_features, max_depth, place});
    if (jobs_.size() < batch) return;
  }
  if (!worker_.joinable()) {
    closed_ = false;
    worker_ = std::thread([this] { work(); });
  }
  more_.notify_one();
}

std::optional<TreeChecks::Failure> TreeChecks::settle() {
  {
    std::lock_guard const lock(mutex_);
    closed_ = true;
  }
  more_.notify_one();
  work();  // what is left is shared with the thread
  if (worker_.joinable()) worker_.join();
  kept_.clear();
  return std::exchange(failure_, std::nullopt);
}

void TreeChecks::work() {
  std::unique_lock lock(mutex_);
  bool busy = false;  // once awake, everything that is there
  for (;;) {
    more_.wait(lock, [&] { return closed_ || jobs_.size() >= batch || (busy && !jobs_.empty()); });
    if (jobs_.empty()) return;  // closed
    Job const job = jobs_.front();
    jobs_.pop_front();
    lock.unlock();
    look(job);
    lock.lock();
    busy = !jobs_.empty();
  }
}

void TreeChecks::look(Job const& job) noexcept {
  std::string text;
  try {
    check_depth(depth_of_tree(job.nodes, job.n_features), job.max_depth);
    return;
  } catch (std::exception const& error) {
    text = error.what();
  }
  std::lock_guard const lock(mutex_);
  if (!failure_ || job.place < failure_->place) failure_ = Failure{job.place, text};
}

void bind_trees(nb::module_& module) {
  module.def("check_tree", &check_tree, nb::arg("nodes"), nb::arg("left"), nb::arg("right"), nb::arg("feature"), nb::arg("child_nbytes"),
             nb::arg("leaf"), nb::arg("n_features"), nb::arg("max_depth"),
             nb::sig("def check_tree(nodes: object, left: int, right: int, feature: int, child_nbytes: int, leaf: int, n_features: int, max_depth: int) -> None"),
             "Looks at a tree of records, given the offsets of their fields: every walk from the root must end, inside the tree, and go no deeper than max_depth. "
             "Raises ValueError here, or, for large trees of a message that is being decoded, Malformed before that message's object is handed out.");
}

}  // namespace transload::py
