#include "loop.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <future>
#include <optional>
#include <utility>

#include "transload/base/error.hpp"
#include "transload/memory/ipc.hpp"

namespace transload::transport {

Loop::Loop(unsigned index) {
  // The thread takes no signals: handlers belong to the program's own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { context_.run(); });
  } catch (std::system_error const& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    raise(ErrorKind::exhausted, cat("no thread for the engine: ", error.what()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), cat("transload-", index).c_str());
}

Loop::~Loop() { stop(); }

void Loop::stop() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
  // They own who waits, and that owns the engine.
  auto const dropped = std::exchange(waits_, {});
}

void Loop::barrier() {
  std::promise<void> passed;
  post([&] { passed.set_value(); });
  passed.get_future().wait();
}

std::span<std::byte> Loop::scratch() {
  if (scratch_.empty()) scratch_.resize(std::size_t{256} << 10);
  return scratch_;
}

void Loop::watch(std::weak_ptr<Watched> watched) {
  watched_.push_back(std::move(watched));
  if (!ticking_) wait_tick();
}

struct Loop::Wait {
  asio::steady_timer timer;
  std::function<bool()> condition;
  std::function<void(Error const*)> then;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

void Loop::when(std::function<bool()> condition, std::function<void(Error const*)> then, std::chrono::microseconds spin) {
  ask(std::make_shared<Wait>(Wait{.timer = asio::steady_timer(context_), .condition = std::move(condition), .then = std::move(then)}), spin);
}

void Loop::ask(std::shared_ptr<Wait> const& wait, std::chrono::microseconds spin) {
  std::optional<Error> error;
  bool holds = false;
  try {
    auto const end = std::chrono::steady_clock::now() + spin;
    while (!(holds = wait->condition()) && std::chrono::steady_clock::now() < end) {
    }
  } catch (Error const& thrown) {
    error = thrown;
  }
  if (holds || error) {
    waits_.erase(wait);
    return wait->then(error ? &*error : nullptr);
  }
  waits_.insert(wait);
  // A sixteenth of the time that it has taken so far is what the last pause may waste.
  auto const taken = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - wait->begin);
  wait->timer.expires_after(std::clamp(taken / 16, std::chrono::microseconds(20), std::chrono::microseconds(1000)));
  wait->timer.async_wait([this, weak = std::weak_ptr(wait)](asio::error_code const& stopped) {
    auto const waits = weak.lock();
    if (waits != nullptr && !stopped) ask(waits, {});
  });
}

void Loop::wait_tick() {
  ticking_ = true;
  timer_.expires_after(std::chrono::milliseconds(500));
  timer_.async_wait([this](asio::error_code const& error) {
    if (error) return;
    auto const now = std::chrono::steady_clock::now();
    auto const watched = watched_;  // a tick may watch something new
    for (auto const& weak : watched) {
      if (auto const one = weak.lock()) one->tick(now);
    }
    std::erase_if(watched_, [](auto const& weak) { return weak.expired(); });
    ticking_ = false;
    close_imported();  // also what a connection has opened that is no more
    if (!watched_.empty() || nimported() > 0) wait_tick();
  });
}

}  // namespace transload::transport
