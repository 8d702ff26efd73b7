#include "transload/base/error.hpp"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

namespace transload {
namespace {

TEST(Error, CarriesItsKindAndItsText) {
  try {
    expects(false, ErrorKind::malformed, cat("frame ", 3, ": ", std::uint64_t{7}, " bytes"));
    FAIL() << "nothing was thrown";
  } catch (Error const& error) {
    EXPECT_EQ(error.kind(), ErrorKind::malformed);
    EXPECT_STREQ(error.what(), "frame 3: 7 bytes");
  }
}

TEST(Error, IsNotThrownWhenTheConditionHolds) { EXPECT_NO_THROW(expects(true, ErrorKind::failed, "never")); }

TEST(Error, ACallableMessageIsOnlyCalledOnFailure) {
  int calls = 0;
  auto message = [&] { return cat("call ", ++calls); };
  expects(true, ErrorKind::failed, message);
  EXPECT_EQ(calls, 0);
  EXPECT_THROW(expects(false, ErrorKind::failed, message), Error);
  EXPECT_EQ(calls, 1);
}

TEST(Error, EachKindHasItsName) {
  EXPECT_EQ(name(ErrorKind::unsupported), "unsupported");
  EXPECT_EQ(name(ErrorKind::malformed), "malformed");
  EXPECT_EQ(name(ErrorKind::exhausted), "exhausted");
  EXPECT_EQ(name(ErrorKind::disconnected), "disconnected");
  EXPECT_EQ(name(ErrorKind::failed), "failed");
}

TEST(Cat, PrintsEachTypeAsAReaderExpects) {
  EXPECT_EQ(cat(std::uint8_t{65}, ' ', true, ' ', std::string("x"), ' ', "y", ' ', 1.5, ' ', 'c'), "65 true x y 1.5 c");
  EXPECT_EQ(cat(), "");
}

}  // namespace
}  // namespace transload
