
#include <gtest/gtest.h>

#include "tests/layout/limits.h"
#include "tests/layout/random_cases.h"
#include "zeroshard/base/error.h"
#include "zeroshard/layout/span.h"

namespace zeroshard {
namespace {

TEST(Span, IsHalfOpen) {
  const Span span(64, 128);
  EXPECT_EQ(span.size(), 64);
  EXPECT_FALSE(span.contains(63));
  EXPECT_TRUE(span.contains(64));
  EXPECT_TRUE(span.contains(127));
  EXPECT_FALSE(span.contains(128));
  EXPECT_EQ(to_string(span), "[64, 128)");
}

TEST(Span, DefaultIsEmpty) {
  EXPECT_TRUE(Span().empty());
  EXPECT_EQ(Span(), Span(0, 0));
}

TEST(Span, RefusesBackwardAndNegativeRanges) {
  EXPECT_THROW(Span(-1, 3), InvariantError);
  EXPECT_THROW(Span(4, 3), InvariantError);
  EXPECT_NO_THROW(Span(0, kMax));
}

TEST(Span, ShiftsAndRefusesToLeaveTheRange) {
  EXPECT_EQ(Span(64, 70).shifted(-64), Span(0, 6));
  EXPECT_EQ(Span(0, 6).shifted(5), Span(5, 11));
  EXPECT_THROW(Span(10, 20).shifted(-11), InvariantError);
  EXPECT_THROW(Span(10, 20).shifted(kMax), InvariantError);
}

TEST(Span, ContainsSpans) {
  const Span span(10, 20);
  EXPECT_TRUE(span.contains(Span(10, 20)));
  EXPECT_TRUE(span.contains(Span(12, 13)));
  EXPECT_FALSE(span.contains(Span(9, 12)));
  EXPECT_FALSE(span.contains(Span(12, 21)));
  EXPECT_TRUE(span.contains(Span(90, 90)));
}

// Intersection is exactly the set of offsets that both contain.
TEST(Span, IntersectionHoldsWhatBothHold) {
  testing::for_each_case(500, [](testing::Random& random, const std::string& trace) {
    SCOPED_TRACE(trace);
    const auto draw = [&] {
      const std::int64_t begin = random.between(0, 30);
      return Span(begin, begin + random.between(0, 15));
    };
    const Span left = draw();
    const Span right = draw();
    const Span both = left.intersect(right);
    for (std::int64_t offset = 0; offset < 50; ++offset) {
      const bool in_left = left.begin() <= offset && offset < left.end();
      const bool in_right = right.begin() <= offset && offset < right.end();
      ASSERT_EQ(both.contains(offset), in_left && in_right) << offset;
    }
    ASSERT_EQ(both.size(), right.intersect(left).size());
  });
}

}  // namespace
}  // namespace zeroshard
