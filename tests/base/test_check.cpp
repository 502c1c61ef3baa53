#include <string>

#include <gtest/gtest.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/rank.h"

namespace zeroshard {
namespace {

template <typename Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const InvariantError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
}

TEST(Check, TrueConditionsPass) {
  EXPECT_NO_THROW(ZS_CHECK(1 < 2));
  EXPECT_NO_THROW(ZS_CHECK_EQ(2, 2, "never {}", "formatted"));
  EXPECT_NO_THROW(ZS_CHECK_LE(2, 2));
}

TEST(Check, MessageHasExpressionPlaceAndRank) {
  RankScope scope(5);
  const bool empty = true;
  const auto text = message_of([&] { ZS_CHECK(!empty, "unit {} has no parameters", "blocks.3"); });
  expect_contains(text, "[internal] unit blocks.3 has no parameters");
  expect_contains(text, "!empty");
  expect_contains(text, "rank 5");
  expect_contains(text, "test_check.cpp:");
}

TEST(Check, MessageHasBothOperands) {
  const int left = 1300, right = 64;
  const auto text = message_of([&] { ZS_CHECK_EQ(left % right, 0, "shard of rank {}", 2); });
  expect_contains(text, "left % right == 0 (20 vs 0)");
  expect_contains(text, "shard of rank 2");
}

TEST(Check, MessageIsOptional) {
  expect_contains(message_of([] { ZS_CHECK_LT(4, 3); }), "a check failed: 4 < 3 (4 vs 3)");
}

TEST(Check, EveryComparisonCanFail) {
  EXPECT_THROW(ZS_CHECK(false), InvariantError);
  EXPECT_THROW(ZS_CHECK_EQ(1, 2), InvariantError);
  EXPECT_THROW(ZS_CHECK_NE(1, 1), InvariantError);
  EXPECT_THROW(ZS_CHECK_LT(1, 1), InvariantError);
  EXPECT_THROW(ZS_CHECK_LE(2, 1), InvariantError);
  EXPECT_THROW(ZS_CHECK_GT(1, 1), InvariantError);
  EXPECT_THROW(ZS_CHECK_GE(1, 2), InvariantError);
}

TEST(Check, OperandsAreEvaluatedOnce) {
  int calls = 0;
  const auto next = [&] { return ++calls; };
  ZS_CHECK_EQ(next(), 1);
  EXPECT_EQ(calls, 1);
}

TEST(Check, IsOneStatement) {
  // Would not compile, or would pair the else wrongly, if the macro were more than one statement.
  bool reached_else = false;
  if (false)
    ZS_CHECK(false);
  else
    reached_else = true;
  EXPECT_TRUE(reached_else);
}

}  // namespace
}  // namespace zeroshard
