#include "transload/base/error.hpp"
#include "transload/memory/cuda.hpp"

#include <cstdio>

int main() {
  try {
    transload::expects(false, transload::ErrorKind::unsupported, transload::cat("field ", 1));
  } catch (transload::Error const& error) {
    std::printf("%s: %s; %s, %d devices\n", std::string(name(error.kind())).c_str(), error.what(),
                transload::built_with_cuda() ? "built with CUDA" : "built without CUDA", transload::device_count());
    return 0;
  }
  return 1;
}
