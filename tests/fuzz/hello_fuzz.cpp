// What an end hears first: the head of a hello and its map. What is accepted says itself again word for word.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "transload/base/error.hpp"
#include "transload/transport/hello.hpp"

using namespace transload;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const input = std::as_bytes(std::span(data, size));
  if (size < hello_head_nbytes) return 0;
  try {
    std::size_t const nbytes = hello_nbytes(input.first(hello_head_nbytes));
    if (nbytes > size - hello_head_nbytes) return 0;
    Hello const hello = parse_hello(input.subspan(hello_head_nbytes, nbytes));
    if (!hello.refused.empty()) return 0;
    auto const again = pack_hello(hello);
    if (parse_hello(std::span(again).subspan(hello_head_nbytes)) != hello) std::abort();
    (void)hello.host.apart_from(Hello{}.host);
    (void)common_version(hello, hello);
  } catch (Error const& error) {
    if (error.kind() != ErrorKind::malformed) std::abort();
  }
  (void)looks_like(input);
  return 0;
}
