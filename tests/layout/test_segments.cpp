// Property: segments cover the real elements of a shard exactly once, each with its own id.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/layout/random_cases.h"
#include "zeroshard/base/error.h"
#include "zeroshard/layout/segment.h"

namespace zeroshard {
namespace {

constexpr int kPaddingId = -1;

// The id of every element of the flat group, written parameter by parameter.
std::vector<int> painted_ids(const FlatLayout& layout, const std::vector<int>& ids) {
  std::vector<int> elements(static_cast<std::size_t>(layout.padded_numel()), kPaddingId);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Span span = layout.parameter_span(i);
    std::fill(elements.begin() + span.begin(), elements.begin() + span.end(), ids[i]);
  }
  return elements;
}

// The fewest segments: one per change of id along the real elements.
std::size_t changes_of_id(const std::vector<int>& elements, const Span& shard) {
  std::size_t changes = 0;
  int previous = kPaddingId;
  for (std::int64_t at = shard.begin(); at < shard.end(); ++at) {
    const int id = elements[static_cast<std::size_t>(at)];
    if (id == kPaddingId) continue;
    if (id != previous) ++changes;
    previous = id;
  }
  return changes;
}

TEST(Segments, CoverRealElementsOnceWithTheirId) {
  testing::for_each_case(200, [](testing::Random& random, const std::string& trace) {
    SCOPED_TRACE(trace);
    const FlatLayout layout(testing::random_numels(random, 5000), random.world_size());
    std::vector<int> ids;
    for (std::size_t i = 0; i < layout.parameter_count(); ++i) {
      ids.push_back(static_cast<int>(random.between(0, 2)));
    }
    const std::vector<int> elements = painted_ids(layout, ids);
    for (int rank = 0; rank < layout.world_size(); ++rank) {
      const Span shard = layout.shard(rank);
      const std::vector<Segment> segments = segments_of(layout, ids, rank);
      ASSERT_EQ(segments.size(), changes_of_id(elements, shard));
      std::int64_t end = shard.begin();
      for (const Segment& segment : segments) {
        ASSERT_EQ(segment.span.begin() % 64, 0);
        ASSERT_FALSE(segment.span.empty());
        ASSERT_TRUE(shard.contains(segment.span));
        for (; end < segment.span.begin(); ++end) {  // skipped: padding and nothing else
          ASSERT_EQ(elements[static_cast<std::size_t>(end)], kPaddingId);
        }
        ASSERT_EQ(end, segment.span.begin());
        for (; end < segment.span.end(); ++end) {
          const int id = elements[static_cast<std::size_t>(end)];
          ASSERT_TRUE(id == kPaddingId || id == segment.hyper_parameters) << end;
        }
      }
      for (; end < shard.end(); ++end) {
        ASSERT_EQ(elements[static_cast<std::size_t>(end)], kPaddingId);
      }
    }
  });
}

TEST(Segments, MergeAcrossPaddingAndEmptyParameters) {
  const FlatLayout layout({10, 0, 20, 30}, 1);  // at 0, 64, 64, 128
  EXPECT_EQ(segments_of(layout, {0, 7, 0, 1}, 0),
            (std::vector<Segment>{{Span(0, 84), 0}, {Span(128, 158), 1}}));
}

TEST(Segments, CutAtTheShard) {
  const FlatLayout layout({100, 100}, 2);  // at 0 and 128, shards of 128
  EXPECT_EQ(segments_of(layout, {3, 3}, 0), (std::vector<Segment>{{Span(0, 100), 3}}));
  EXPECT_EQ(segments_of(layout, {3, 3}, 1), (std::vector<Segment>{{Span(128, 228), 3}}));
}

TEST(Segments, OfNothing) {
  EXPECT_TRUE(segments_of(FlatLayout({}, 2), {}, 1).empty());
  EXPECT_TRUE(segments_of(FlatLayout({0}, 2), {5}, 0).empty());
}

TEST(Segments, RefuseBadArguments) {
  const FlatLayout layout({10, 20}, 2);
  EXPECT_THROW(segments_of(layout, {0}, 0), InvariantError);
  EXPECT_THROW(segments_of(layout, {0, 1, 2}, 0), InvariantError);
  EXPECT_THROW(segments_of(layout, {0, 1}, 2), InvariantError);
}

}  // namespace
}  // namespace zeroshard
