#pragma once
/// One thread that waits for descriptors and timers. Internal to the room: needs Asio.

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "transload/base/error.hpp"

namespace transload::transport {

/// Looked at twice a second on its loop.
class Watched {
 public:
  virtual ~Watched() = default;
  virtual void tick(std::chrono::steady_clock::time_point now) = 0;
};

/// A thread of its own around an io_context that only this thread runs: what happens on a loop happens one after the other.
class Loop {
 public:
  explicit Loop(unsigned index);
  ~Loop();
  Loop(Loop const&) = delete;

  [[nodiscard]] asio::io_context& context() noexcept { return context_; }
  [[nodiscard]] bool here() const noexcept { return std::this_thread::get_id() == thread_.get_id(); }

  template <class F>
  void post(F&& f) {
    asio::post(context_, std::forward<F>(f));
  }
  /// Waits until everything posted before has run.
  void barrier();
  /// Runs no further handler; waits for the thread.
  void stop();

  /// Bytes for what is read before it is known where it goes. On the loop only, and until the handler returns.
  [[nodiscard]] std::span<std::byte> scratch();

  void watch(std::weak_ptr<Watched> watched);  ///< on the loop

  /// Calls `then` on the loop once `condition` holds, or with the error that it throws. Asks at once, without a pause for `spin`, then in steps that grow
  /// to a millisecond: GPUs tell nobody when they are done. On the loop. A loop that is stopped drops both.
  void when(std::function<bool()> condition, std::function<void(Error const*)> then, std::chrono::microseconds spin = {});

 private:
  struct Wait;

  void wait_tick();
  void ask(std::shared_ptr<Wait> const& wait, std::chrono::microseconds spin);

  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  asio::steady_timer timer_{context_};
  bool ticking_ = false;
  std::set<std::shared_ptr<Wait>> waits_;
  std::vector<std::weak_ptr<Watched>> watched_;
  std::vector<std::byte> scratch_;
  std::thread thread_;
};

}  // namespace transload::transport
