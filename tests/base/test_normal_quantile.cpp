#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "zeroshard/base/normal_quantile.h"

namespace zeroshard {
namespace {

// The share below x, by the C library.
double share_below(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

double density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi); }

// An error of the quantile, times the density, is one of the share.
TEST(NormalQuantile, InvertsTheDistribution) {
  for (double p = 1e-4; p < 1.0; p += 1e-4) {
    const double x = normal_quantile(p);
    EXPECT_NEAR(share_below(x), p, 1.5e-7 * std::abs(x) * density(x) + 1e-15) << p;
  }
}

TEST(NormalQuantile, ReachesFarIntoTheTails) {
  for (double p = 1e-3; p > 1e-16; p /= 3.0) {
    EXPECT_NEAR(share_below(normal_quantile(p)) / p, 1.0, 1e-5) << p;
  }
}

TEST(NormalQuantile, KnownValues) {
  EXPECT_EQ(normal_quantile(0.5), 0.0);
  EXPECT_NEAR(normal_quantile(0.25), -0.6744897501960817, 1e-7);
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 2e-7);
  EXPECT_NEAR(normal_quantile(1e-20), -9.262340089798408, 1e-6);
  EXPECT_EQ(normal_quantile(0.9), -normal_quantile(1.0 - 0.9));
}

}  // namespace
}  // namespace zeroshard
