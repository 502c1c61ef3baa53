// The points on a line of the smallest example.
#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/trainer/batches.h"
#include "zeroshard/trainer/synthetic.h"

namespace zeroshard {
namespace {

TEST(LinearData, LiesOnTheLineExactly) {
  const LinearData data({.seed = 42});
  ASSERT_EQ(data.sample_count(), 1000);
  for (std::int64_t i = 0; i < 1000; ++i) {
    const double x = data.x_of(i);
    EXPECT_TRUE(x >= -1 && x < 1) << x;
    EXPECT_EQ(double(data.y_of(i)), 2 * x + 1);  // no rounding: the x are multiples of 2^-23
  }
}

TEST(LinearData, IsUniform) {
  const LinearData data({.samples = 100000, .seed = 1});
  double sum = 0, squares = 0;
  std::set<float> different;
  for (std::int64_t i = 0; i < 100000; ++i) {
    const double x = data.x_of(i);
    sum += x, squares += x * x;
    different.insert(data.x_of(i));
  }
  EXPECT_NEAR(sum / 1e5, 0, 0.01);            // deviation 0.0018
  EXPECT_NEAR(squares / 1e5, 1.0 / 3, 0.01);  // deviation 0.0009
  EXPECT_GT(different.size(), 99000U);
}

TEST(LinearData, SeedsDifferAndRepeat) {
  EXPECT_EQ(LinearData({.seed = 1}).x_of(5), LinearData({.seed = 1}).x_of(5));
  EXPECT_NE(LinearData({.seed = 1}).x_of(5), LinearData({.seed = 2}).x_of(5));
}

TEST(LinearData, FillsBatchesOfTheSameOrderAsTokens) {
  const LinearData data({.samples = 10, .seed = 3, .slope = -1, .intercept = 0.5F});
  const BatchPlan plan(10, {.micro_per_rank = 4}, {.start = {.samples = 0, .seed = 8}});
  const std::vector<std::int64_t> samples = plan.samples_of(0);
  std::vector<float> xs(4), ys(4);
  data.fill(samples, xs, ys);
  for (std::size_t row = 0; row < 4; ++row) {
    EXPECT_EQ(xs[row], data.x_of(samples[row]));
    EXPECT_EQ(ys[row], 0.5F - xs[row]);
  }
  EXPECT_THROW(data.fill(samples, xs, std::span(ys).first(3)), InvariantError);
}

TEST(LinearData, NoSamplesAreRefused) { EXPECT_THROW(LinearData({.samples = 0}), ConfigError); }

}  // namespace
}  // namespace zeroshard
