#pragma once
/// The rows that several microbenchmarks write and read: what `dict of 10 000 (int, float, None)` is on the wire.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "transload/base/error.hpp"
#include "transload/message/msgpack.hpp"
#include "transload/message/op.hpp"

namespace transload::bench {

inline constexpr std::size_t nrows = 10'000;

inline std::vector<std::string> keys() {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < nrows; ++i) out.push_back(cat("k", i));
  return out;
}

/// `{key: (TUPLE, i, i * 0.5, nil), …}`: 5 values a row.
inline void write_rows(msgpack::Packer& packer, std::vector<std::string> const& keys) {
  packer.map(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    packer.str(keys[i]);
    packer.array(4);
    packer.unsigned_integer(static_cast<std::uint64_t>(Op::tuple));
    packer.integer(static_cast<std::int64_t>(i));
    packer.real(static_cast<double>(i) * 0.5);
    packer.nil();
  }
}

inline constexpr std::size_t values_a_row = 6;

}  // namespace transload::bench
