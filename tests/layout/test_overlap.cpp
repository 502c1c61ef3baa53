// Property: overlaps are exactly the offsets that both lists hold, each with the right entries.
#include <gtest/gtest.h>

#include "tests/layout/random_cases.h"
#include "zeroshard/base/error.h"
#include "zeroshard/layout/overlap.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kEnd = 220;

std::vector<Span> random_spans(testing::Random& random) {
  std::vector<Span> spans;
  std::int64_t at = random.between(0, 20);
  while (at < kEnd - 40) {
    const std::int64_t end = at + random.between(0, 30);
    spans.emplace_back(at, end);
    at = end + (random.chance(50) ? 0 : random.between(1, 10));
  }
  return spans;
}

// Which entry holds each offset, -1 for none.
std::vector<int> holders(const std::vector<Span>& spans) {
  std::vector<int> at(kEnd, -1);
  for (std::size_t i = 0; i < spans.size(); ++i) {
    for (std::int64_t k = spans[i].begin(); k < spans[i].end(); ++k) {
      at.at(static_cast<std::size_t>(k)) = static_cast<int>(i);
    }
  }
  return at;
}

TEST(Overlaps, HoldWhatBothListsHold) {
  testing::for_each_case(500, [](testing::Random& random, const std::string& trace) {
    SCOPED_TRACE(trace);
    const std::vector<Span> wanted = random_spans(random);
    const std::vector<Span> stored = random_spans(random);
    const std::vector<int> wanted_at = holders(wanted);
    const std::vector<int> stored_at = holders(stored);
    std::vector<int> times(kEnd, 0);
    std::int64_t previous_end = 0;
    for (const Overlap& overlap : overlaps(wanted, stored)) {
      ASSERT_FALSE(overlap.span.empty());
      ASSERT_GE(overlap.span.begin(), previous_end);
      previous_end = overlap.span.end();
      for (std::int64_t k = overlap.span.begin(); k < overlap.span.end(); ++k) {
        const auto at = static_cast<std::size_t>(k);
        ASSERT_EQ(wanted_at[at], static_cast<int>(overlap.wanted));
        ASSERT_EQ(stored_at[at], static_cast<int>(overlap.stored));
        ++times[at];
      }
    }
    for (std::size_t at = 0; at < times.size(); ++at) {
      ASSERT_EQ(times[at], wanted_at[at] >= 0 && stored_at[at] >= 0 ? 1 : 0) << at;
    }
  });
}

TEST(Overlaps, OfNothing) {
  EXPECT_TRUE(overlaps({}, {}).empty());
  EXPECT_TRUE(overlaps({Span(0, 5)}, {}).empty());
  EXPECT_TRUE(overlaps({Span(0, 5)}, {Span(5, 9)}).empty());
}

TEST(Overlaps, OneWantedSpanOverManyStored) {
  EXPECT_EQ(overlaps({Span(3, 12)}, {Span(0, 5), Span(5, 10), Span(10, 15)}),
            (std::vector<Overlap>{{Span(3, 5), 0, 0}, {Span(5, 10), 0, 1}, {Span(10, 12), 0, 2}}));
}

TEST(Overlaps, RefuseListsOutOfOrder) {
  EXPECT_THROW(overlaps({Span(0, 5), Span(4, 6)}, {}), InvariantError);
  EXPECT_THROW(overlaps({}, {Span(5, 6), Span(0, 1)}), InvariantError);
}

}  // namespace
}  // namespace zeroshard
