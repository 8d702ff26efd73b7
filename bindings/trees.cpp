/// Looking at decision trees before compiled code walks them: one pass over the nodes, as adapters/sklearn.py asks.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>

#include "bindings.hpp"
#include "checks.hpp"
#include "graph.hpp"
#include "numpy.hpp"
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

/// Whether `itemsize` bytes have room for a field.
bool has_room(BufferView const& view, std::size_t offset, std::size_t nbytes) noexcept {
  auto const itemsize = static_cast<std::size_t>(view->itemsize);
  return itemsize >= nbytes && offset <= itemsize - nbytes;
}

void check_splits(nb::handle records, std::size_t feature, std::size_t leaf, std::size_t categorical, std::size_t bitset, std::int64_t n_bitsets,
                  nb::handle categories) {
  try {
    BufferView const view(records.ptr(), PyBUF_STRIDED_RO);
    BufferView const flags = categories.is_none() ? BufferView() : BufferView(categories.ptr(), PyBUF_SIMPLE);
    if (view->ndim != 1 || !has_room(view, feature, 8) || !has_room(view, leaf, 1) || !has_room(view, categorical, 1) || !has_room(view, bitset, 4)) {
      throw nb::value_error("nodes: not a row of records with these fields");
    }
    std::int64_t const n_features = flags.held() ? static_cast<std::int64_t>(flags.bytes().size()) : INT64_MAX;
    auto const* node = static_cast<std::byte const*>(view->buf);
    for (Py_ssize_t i = 0; i < view->shape[0]; ++i, node += view->strides[0]) {
      if (node[leaf] != std::byte{0}) continue;
      auto const chosen = field<std::int64_t>(node, feature);
      if (chosen < 0 || chosen >= n_features) throw nb::value_error(cat("node ", i, ": feature ", chosen, " of ", n_features).c_str());
      if (node[categorical] == std::byte{0}) continue;
      auto const bits = static_cast<std::int64_t>(field<std::uint32_t>(node, bitset));
      if (bits >= n_bitsets) throw nb::value_error(cat("node ", i, ": bitset_idx ", bits, " of ", n_bitsets).c_str());
      if (flags.held() && flags.bytes()[static_cast<std::size_t>(chosen)] == std::byte{0}) {
        throw nb::value_error(cat("node ", i, " splits feature ", chosen, " by categories, which it has none of").c_str());
      }
    }
  } catch (Raised const&) {
    throw nb::python_error();
  }
}

// ── Trees of neighbours: complete binary trees over rows, which they hold in the order of an index ──

/// The memory of an array of exactly NumPy's class, in C order.
class Rows {
 public:
  Rows(PyObject* array, char const* what, int ndim, Py_ssize_t itemsize) : what_(what) {
    if (Py_TYPE(array) != reinterpret_cast<PyTypeObject*>(numpy().ndarray)) throw nb::value_error(cat(what, " is no array").c_str());
    view_ = BufferView(array, PyBUF_STRIDED_RO);
    if (view_->ndim != ndim || (itemsize != 0 && view_->itemsize != itemsize)) {
      throw nb::value_error(cat(what, ": ", view_->ndim, " dimensions of ", view_->itemsize, " bytes").c_str());
    }
    if (PyBuffer_IsContiguous(view_.operator->(), 'C') == 0 || reinterpret_cast<std::uintptr_t>(view_->buf) % 8 != 0) {
      throw nb::value_error(cat(what, " is no compact array").c_str());
    }
  }
  void need_shape(std::initializer_list<Py_ssize_t> shape) const {
    if (!std::equal(shape.begin(), shape.end(), view_->shape)) throw nb::value_error(cat(what_, " does not fit").c_str());
  }
  [[nodiscard]] Py_ssize_t shape(std::size_t axis) const { return view_->shape[axis]; }
  [[nodiscard]] std::byte const* bytes() const { return static_cast<std::byte const*>(view_->buf); }

 private:
  char const* what_;
  BufferView view_;
};

/// scikit-learn's NodeData_t: the rows of a node, whether it has children, and its radius.
struct NeighbourNode {
  std::int64_t start;
  std::int64_t end;
  std::int64_t leaf;
  double radius;
};

/// 0 <= start <= end <= n in each of the nodes, and those without children are leaves.
void check_neighbour_nodes(NeighbourNode const* nodes, std::size_t n_nodes, std::int64_t n) {
  std::uint64_t bad = 0;
  for (std::size_t i = 0; i < n_nodes; ++i) {
    auto const end = static_cast<std::uint64_t>(nodes[i].end);
    bad |= static_cast<std::uint64_t>((end > static_cast<std::uint64_t>(n)) | (static_cast<std::uint64_t>(nodes[i].start) > end));
  }
  for (std::size_t i = n_nodes / 2; i < n_nodes; ++i) bad |= static_cast<std::uint64_t>(nodes[i].leaf == 0);
  if (bad == 0) return;
  for (std::size_t i = 0; i < n_nodes; ++i) {
    auto const [start, end, leaf, radius] = nodes[i];
    if (start < 0 || end < start || end > n) throw nb::value_error(cat("node ", i, ": items ", start, " to ", end, " of ", n).c_str());
    if (i >= n_nodes / 2 && leaf == 0) throw nb::value_error(cat("node ", i, " of the last level is no leaf").c_str());
  }
}

/// An int of the state, within limits that keep it from overflowing.
std::int64_t count_of(PyObject* state, Py_ssize_t part, char const* what, std::int64_t low, std::int64_t high) {
  PyObject* const number = PyTuple_GetItem(state, part);
  int overflow = 0;
  long long const value = Py_TYPE(number) == &PyLong_Type ? PyLong_AsLongLongAndOverflow(number, &overflow) : low - 1;
  if (overflow != 0 || value < low || value > high) throw nb::value_error(cat(what, " is no int from ", low, " to ", high).c_str());
  return value;
}

void check_neighbours(nb::handle handed, Py_ssize_t planes) {
  PyObject* const state = handed.ptr();
  if (Py_TYPE(state) != &PyTuple_Type || PyTuple_Size(state) != 13) throw nb::value_error("a tree of neighbours has 13 parts");
  try {
    constexpr std::int64_t most = std::int64_t{1} << 62;
    (void)count_of(state, 4, "leaf_size", 1, most);
    std::int64_t const n_levels = count_of(state, 5, "n_levels", 1, 60);
    Py_ssize_t const n_nodes = count_of(state, 6, "n_nodes", 1, most);
    if (n_nodes != (std::int64_t{1} << n_levels) - 1) throw nb::value_error("n_nodes does not fit n_levels");
    for (Py_ssize_t part = 7; part < 11; ++part) (void)count_of(state, part, "a statistic", -most, most);
    Rows const points(PyTuple_GetItem(state, 0), "data", 2, 0);
    Py_ssize_t const n = points.shape(0);
    Rows const order(PyTuple_GetItem(state, 1), "idx_array", 1, 8);
    order.need_shape({n});
    Rows const records(PyTuple_GetItem(state, 2), "node_data", 1, sizeof(NeighbourNode));
    records.need_shape({n_nodes});
    Rows(PyTuple_GetItem(state, 3), "node_bounds", 3, 0).need_shape({planes, n_nodes, points.shape(1)});
    PyObject* const weight = PyTuple_GetItem(state, 12);
    if (weight != Py_None) Rows(weight, "sample_weight", 1, 0).need_shape({n});
    charge_copy(static_cast<std::uint64_t>(n) * 8);
    auto const* const rows = reinterpret_cast<std::int64_t const*>(order.bytes());
    if (!all_indices_of(rows, static_cast<std::size_t>(n), n)) {
      auto const [least, most_of_all] = std::minmax_element(rows, rows + n);
      throw nb::value_error(cat("idx_array: from ", *least, " to ", *most_of_all, ", not all in [0, ", n, ")").c_str());
    }
    check_neighbour_nodes(reinterpret_cast<NeighbourNode const*>(records.bytes()), static_cast<std::size_t>(n_nodes), n);
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
  handed_.clear();
  leave_thread_of_parent();
  if (bench_) {
    std::lock_guard const lock(bench_->mutex);
    bench_->jobs.clear();
  }
  (void)settle();
}

TreeChecks* TreeChecks::current() noexcept { return current_checks; }

void TreeChecks::add(Nodes nodes, std::int64_t n_features, std::int64_t max_depth, Ref keep) {
  if (trusting) return;
  if (nodes.n < later_from) return check_depth(depth_of_tree(nodes, n_features), max_depth);
  if (!bench_) bench_ = std::make_unique<Bench>();
  kept_.push_back(std::move(keep));
  handed_.push_back({nodes, n_features, max_depth, place});
  {
    std::lock_guard const lock(bench_->mutex);
    bench_->jobs.push_back(handed_.back());
    if (bench_->jobs.size() < batch) return;
  }
  if (!thread_ && !alone_) start();
  bench_->more.notify_one();
}

void TreeChecks::start() {
  bench_->closed = false;
  try {
    thread_ = std::make_unique<std::thread>([bench = bench_.get()] { bench->work(); });
    pid_ = ::getpid();
  } catch (std::system_error const&) {  // as many threads as this process may have
    alone_ = true;
  }
}

/// In the child of a fork the thread is not there to be joined, and may have held the lock when it was left: both stay where they are.
void TreeChecks::leave_thread_of_parent() {
  if (!thread_ || pid_ == ::getpid()) return;
  (void)thread_.release();
  (void)bench_.release();
  bench_ = std::make_unique<Bench>();
  bench_->jobs.assign(handed_.begin(), handed_.end());
}

std::optional<TreeChecks::Failure> TreeChecks::settle() {
  if (!bench_) return std::nullopt;
  leave_thread_of_parent();
  {
    std::lock_guard const lock(bench_->mutex);
    bench_->closed = true;
  }
  bench_->more.notify_one();
  bench_->work();  // what is left is shared with the thread
  if (thread_) thread_->join();
  thread_.reset();
  handed_.clear();
  kept_.clear();
  return std::exchange(bench_->failure, std::nullopt);
}

void TreeChecks::Bench::work() {
  std::unique_lock lock(mutex);
  bool busy = false;  // once awake, everything that is there
  for (;;) {
    more.wait(lock, [&] { return closed || jobs.size() >= batch || (busy && !jobs.empty()); });
    if (jobs.empty()) return;  // closed
    Job const job = jobs.front();
    jobs.pop_front();
    lock.unlock();
    look(job);
    lock.lock();
    busy = !jobs.empty();
  }
}

void TreeChecks::Bench::look(Job const& job) noexcept {
  try {
    check_depth(depth_of_tree(job.nodes, job.n_features), job.max_depth);
  } catch (...) {
    std::exception_ptr what = std::current_exception();
    std::lock_guard const lock(mutex);
    if (!failure || job.place < failure->place) failure = Failure{job.place, std::move(what)};
  }
}

void bind_trees(nb::module_& module) {
  module.def("check_tree", &check_tree, nb::arg("nodes"), nb::arg("left"), nb::arg("right"), nb::arg("feature"), nb::arg("child_nbytes"),
             nb::arg("leaf"), nb::arg("n_features"), nb::arg("max_depth"),
             nb::sig("def check_tree(nodes: object, left: int, right: int, feature: int, child_nbytes: int, leaf: int, n_features: int, max_depth: int) -> None"),
             "Looks at a tree of records, given the offsets of their fields: every walk from the root must end, inside the tree, and go no deeper than max_depth. "
             "Raises ValueError here, or, for large trees of a message that is being decoded, Malformed before that message's object is handed out.");
  module.def("check_splits", &check_splits, nb::arg("nodes"), nb::arg("feature"), nb::arg("leaf"), nb::arg("categorical"), nb::arg("bitset"),
             nb::arg("n_bitsets"), nb::arg("categories").none(),
             nb::sig("def check_splits(nodes: object, feature: int, leaf: int, categorical: int, bitset: int, n_bitsets: int, categories: object | None) -> None"),
             "Looks at the splits of a tree of records, given the offsets of their fields: where an inner node splits by categories, it names one of n_bitsets; "
             "with `categories` (a byte a feature) its feature is one of them, and that byte is not zero where it splits by categories. Raises ValueError.");
  module.def("check_neighbours", &check_neighbours, nb::arg("state"), nb::arg("planes"),
             nb::sig("def check_neighbours(state: tuple[typing.Any, ...], planes: int) -> None"),
             "Looks at the state of a k-d tree (2 planes) or ball tree (1) before compiled code indexes with it: counts and shapes that fit each other, rows "
             "and spans of rows inside the data, leaves on the last level. The metric, and kinds of items other than their size, are left to the caller. "
             "Raises ValueError.");
}

}  // namespace transload::py
