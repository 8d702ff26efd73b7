#include "transload/transport/host.hpp"

#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <mutex>
#include <vector>

#include "transload/base/error.hpp"

namespace transload {

namespace {

std::atomic<std::uint64_t> generation{0};

// One flag a descriptor number; a vector, so that the child of a fork need not allocate or free.
struct Descriptors {
  std::mutex mutex;
  std::vector<bool> kept;
  std::size_t count = 0;
};

Descriptors& descriptors() {
  static auto* const all = new Descriptors;  // also used while the process ends
  return *all;
}

void before_fork() {
  not_while_forking().lock();
  descriptors().mutex.lock();
}
void in_parent() {
  descriptors().mutex.unlock();
  not_while_forking().unlock();
}
void in_child() {
  Descriptors& all = descriptors();
  for (std::size_t fd = 0; fd < all.kept.size(); ++fd) {
    if (all.kept[fd]) ::close(static_cast<int>(fd));
    all.kept[fd] = false;
  }
  all.count = 0;
  generation.fetch_add(1, std::memory_order_relaxed);
  all.mutex.unlock();
  not_while_forking().unlock();
}

// While the library is loaded: a fork in the midst of a first use would leave the child a wait for what nobody goes on making.
int const watched = [] {
  (void)not_while_forking();
  (void)descriptors();
  return ::pthread_atfork(before_fork, in_parent, in_child);
}();

void watch_forks() { expects(watched == 0, ErrorKind::exhausted, "pthread_atfork has no room"); }

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace

std::mutex& not_while_forking() {
  static auto* const mutex = new std::mutex;  // of the plain kind, which a child may unlock
  return *mutex;
}

Token random_token() {
  Token token;
  std::size_t have = 0;
  while (have < token.size()) {
    ssize_t const n = ::getrandom(token.data() + have, token.size() - have, 0);
    expects(n > 0 || errno == EINTR, ErrorKind::failed, "getrandom gives no bytes");
    if (n > 0) have += static_cast<std::size_t>(n);
  }
  return token;
}

std::string to_hex(Token const& token) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (std::byte const b : token) {
    text += digits[static_cast<unsigned>(b) >> 4];
    text += digits[static_cast<unsigned>(b) & 15];
  }
  return text;
}

HostIdentity HostIdentity::of_this_process() {
  static HostIdentity identity;
  static std::uint64_t made_in = ~std::uint64_t{0};
  watch_forks();
  std::lock_guard const lock(not_while_forking());
  if (made_in != fork_generation()) {
    identity.boot.clear();
    struct stat about {};
    identity.net_namespace = ::stat("/proc/self/ns/net", &about) == 0 ? about.st_ino : 0;
    identity.uid = ::geteuid();
    identity.pid = static_cast<std::uint32_t>(::getpid());
    identity.process = random_token();
    made_in = fork_generation();
  }
  if (identity.boot.empty()) identity.boot = boot_id();  // also where it could not be read before: for want of a descriptor
  return identity;
}

std::string HostIdentity::apart_from(HostIdentity const& other) const {
  if (boot.empty() || boot != other.boot) return "another host";
  if (net_namespace == 0 || net_namespace != other.net_namespace) return "another network namespace";
  if (uid != other.uid) return cat("another user: uid ", other.uid, ", here ", uid);
  return {};
}

std::uint64_t fork_generation() noexcept { return generation.load(std::memory_order_relaxed); }

void keep_from_children(int descriptor) {
  watch_forks();
  Descriptors& all = descriptors();
  std::lock_guard const lock(all.mutex);
  auto const at = static_cast<std::size_t>(descriptor);
  if (at >= all.kept.size()) all.kept.resize(at + 64);
  if (!all.kept[at]) ++all.count;
  all.kept[at] = true;
}

void let_go(int descriptor) {
  Descriptors& all = descriptors();
  std::lock_guard const lock(all.mutex);
  auto const at = static_cast<std::size_t>(descriptor);
  if (at < all.kept.size() && all.kept[at]) {
    all.kept[at] = false;
    --all.count;
  }
}

std::size_t kept_descriptors() {
  Descriptors& all = descriptors();
  std::lock_guard const lock(all.mutex);
  return all.count;
}

}  // namespace transload
