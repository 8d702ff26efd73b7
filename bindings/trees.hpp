#pragma once
/// Looking at decision trees before compiled code walks them.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <sys/types.h>
#include <thread>
#include <vector>

#include "py.hpp"

namespace transload::py {

/// The records of a tree, and where the fields of one lie (bytes).
struct Nodes {
  std::byte const* first = nullptr;
  std::ptrdiff_t stride = 0;
  std::size_t n = 0;
  std::size_t left = 0, right = 0, feature = 0, leaf = 0;
  std::size_t child_nbytes = 8;  ///< 4 or 8
  bool leaf_field = false;       ///< else a left child of −1 says that a node has no children
};

/// Depth of the deepest node.
///
/// @throws std::exception unless each node but the first is the child of exactly one node before it, and each inner node's feature is one
/// of `n_features`: then every walk from the root ends, inside the tree.
[[nodiscard]] std::int64_t depth_of_tree(Nodes const& nodes, std::int64_t n_features);

/// The trees of one message. Large ones are looked at by a thread beside the decoding, which needs the memory's bandwidth less than a
/// forest's check would (a second pass over its nodes was a seventh of the whole decoding). Nothing of the message may walk a tree before `settle`.
///
/// Where there is no thread to be had, `settle` looks at them itself; so it does in the child of a fork that was made in between, where the thread
/// is not, and looks again at all that were handed over since the last time.
class TreeChecks {
 public:
  TreeChecks();
  TreeChecks(TreeChecks const&) = delete;
  TreeChecks& operator=(TreeChecks const&) = delete;
  ~TreeChecks();

  /// Those of the message that this thread decodes, or null.
  [[nodiscard]] static TreeChecks* current() noexcept;

  /// Looks at a tree now or soon. `keep` holds its memory; `place` (a byte of the header) comes back with the failure.
  void add(Nodes nodes, std::int64_t n_features, std::int64_t max_depth, Ref keep);

  struct Failure {
    std::size_t place = 0;
    std::exception_ptr what;  ///< std::bad_alloc, or another whose text says what is wrong with the tree
  };
  /// Waits until all trees so far were looked at; the first that is wrong. Needs the GIL, which the thread does not.
  [[nodiscard]] std::optional<Failure> settle();
  [[nodiscard]] bool pending() const noexcept { return !kept_.empty(); }

  std::size_t place = 0;   ///< of the node that is decoded now
  bool trusting = false;   ///< family pickle is allowed: who may send code need not lie about trees, and none is looked at

 private:
  struct Job {
    Nodes nodes;
    std::int64_t n_features;
    std::int64_t max_depth;
    std::size_t place;
  };
  /// What the decoder shares with the thread.
  struct Bench {
    std::mutex mutex;
    std::condition_variable more;
    std::deque<Job> jobs;
    bool closed = false;
    std::optional<Failure> failure;

    void work();
    void look(Job const& job) noexcept;
  };
  void start();
  void leave_thread_of_parent();

  std::unique_ptr<Bench> bench_;  ///< from the first large tree on
  std::unique_ptr<std::thread> thread_;
  pid_t pid_ = 0;          ///< of the process that the thread is in
  bool alone_ = false;     ///< no thread was to be had
  std::vector<Job> handed_;  ///< since the last `settle`
  std::vector<Ref> kept_;    ///< their memory
  TreeChecks* outer_;
};

}  // namespace transload::py
