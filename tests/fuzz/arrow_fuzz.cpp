// ARROW nodes from a stranger: the first byte chooses how payloads lie in memory, two bytes give the header's length,
// then header and payload bytes. Whatever is accepted must be readable row by row and survive a second trip.
#include <algorithm>

#include "../support/arrow.hpp"

namespace {

using namespace transload;
using transload::testing::Bytes;

/// Reads every row of a column and of all that it points to.
std::size_t read_all(ArrowColumnView const& column) {
  std::size_t read = 0;
  std::size_t const rows = std::min<std::size_t>(column.size(), 4096);
  for (std::size_t row = 0; row < rows; ++row) read += transload::testing::show(column, row).size();
  return read;
}

void try_input(std::span<std::byte const> input) {
  if (input.size() < 3) return;
  std::size_t const shift = static_cast<std::size_t>(input[0]) % 8;
  std::size_t const header_nbytes = static_cast<std::size_t>(input[1]) | static_cast<std::size_t>(input[2]) << 8;
  input = input.subspan(3);
  if (header_nbytes > input.size()) return;
  auto const header_bytes = input.first(header_nbytes);
  auto const bulk = input.subspan(header_nbytes);

  Header const header = Header::parse(header_bytes);
  std::size_t total = 0;
  for (PayloadSize const& size : header.sizes) {
    if (size.nbytes > bulk.size()) return;
    total += size.window_of < 0 ? size.nbytes : 0;
  }
  if (total > bulk.size()) return;
  // Each payload in its own block, so that the sanitizer sees a step outside it.
  std::vector<std::unique_ptr<std::byte[]>> blocks;
  std::vector<Bytes> payloads;
  std::vector<std::size_t> begins;
  std::size_t end = 0;
  for (PayloadSize const& size : header.sizes) {
    begins.push_back(end);
    if (size.window_of < 0) end += size.nbytes;
  }
  for (std::size_t p = 0; p < begins.size(); ++p) {
    PayloadSize const& size = header.sizes[p];
    std::size_t const from = size.window_of < 0 ? begins[p] : begins[static_cast<std::size_t>(size.window_of)] + size.window_offset;
    blocks.push_back(std::make_unique<std::byte[]>(shift + size.nbytes));
    if (size.nbytes != 0) std::memcpy(blocks.back().get() + shift, bulk.data() + from, size.nbytes);
    payloads.emplace_back(blocks.back().get() + shift, size.nbytes);
  }

  msgpack::Reader reader(header_bytes);
  reader.seek(header.root_offset);
  std::size_t const n = reader.array("node");
  if (n == 0) return;
  reader.skip();
  ArrowData const data = decode_arrow(reader, n - 1, header, [&](std::uint32_t p, std::size_t) { return payloads[p]; }, nullptr);

  for (ArrowColumn const& chunk : data.chunks) read_all(ArrowColumnView(data.schema, chunk));

  ArrowSchema schema;
  data.schema.export_to(&schema);
  std::vector<ArrowArray> arrays(data.chunks.size());
  std::vector<ArrowArray const*> chunks;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    data.export_chunk(i, &arrays[i]);
    chunks.push_back(&arrays[i]);
  }
  // What was accepted is valid, so it can be written again. Rows of no bytes (nulls) may be more than their offsets can count.
  try {
    HeaderWriter writer;
    auto const made = encode_arrow(writer, data.kind, schema, chunks);
  } catch (Error const& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
  }
  schema.release(&schema);
  for (ArrowArray& array : arrays) array.release(&array);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  try {
    try_input(std::as_bytes(std::span(data, size)));
  } catch (transload::Error const&) {
  }
  return 0;
}
