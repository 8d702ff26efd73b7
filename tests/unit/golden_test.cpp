// tests/data/v1: containers that Python wrote once, and what they must print here for ever.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/messages.hpp"
#include "transload/adapters/inspect.hpp"
#include "transload/adapters/value.hpp"
#include "transload/message/container.hpp"

namespace transload {
namespace {

namespace fs = std::filesystem;

std::vector<char> read(fs::path const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (auto const& entry : fs::directory_iterator(fs::path(TRANSLOAD_TEST_DATA) / "v1")) {
    // Those of libraries' objects (scikit-learn) are Python's alone: they have no text.
    auto text = entry.path();
    if (entry.path().extension() == ".tld" && fs::exists(text.replace_extension(".txt"))) out.push_back(entry.path().stem().string());
  }
  return out;
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  fs::path path = fs::path(TRANSLOAD_TEST_DATA) / "v1" / (GetParam() + ".tld");
};

TEST_P(Golden, PrintsWhatItAlwaysPrinted) {
  auto expected = path;
  auto const text = read(expected.replace_extension(".txt"));
  EXPECT_EQ(inspect(Value::open(Container::open(path)), {.max_items = 30}) + "\n", std::string(text.begin(), text.end()));
}

TEST_P(Golden, CutAtAnyByteIsMalformed) {
  auto const bytes = read(path);
  for (std::size_t n = 0; n < std::min<std::size_t>(bytes.size(), 3000); ++n) {
    test::error_of([&] { (void)Value::open(Container::parse(test::tight_copy(std::as_bytes(std::span(bytes)).first(n)))); });
  }
}

TEST_P(Golden, AHeaderCutAtAnyByteIsMalformed) {
  Message const whole = Container::open(path).message();
  for (std::size_t n = 0; n < whole.header.nbytes(); ++n) {
    Message cut;
    cut.header = test::tight_copy(whole.header.bytes().first(n));
    for (Buffer const& frame : whole.frames) cut.frames.push_back(Buffer::borrow(frame.bytes()));
    test::error_of([&] { (void)Value::open(std::move(cut)); });
  }
}

TEST_P(Golden, AFrameTooManyIsMalformed) {
  Message whole = Container::open(path).message();
  whole.frames.emplace_back();
  test::error_of([&] { (void)Value::open(std::move(whole)); });
}

INSTANTIATE_TEST_SUITE_P(V1, Golden, testing::ValuesIn(names()), [](auto const& info) { return info.param; });

}  // namespace
}  // namespace transload
