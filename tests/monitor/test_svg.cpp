// Axes and pictures, for figures of every kind.
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "zeroshard/monitor/svg.h"

namespace zeroshard {
namespace {

TEST(Ticks, AreRoundAndCoverWhatIsAskedFor) {
  EXPECT_EQ(ticks(0, 10), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(ticks(0, 0), (std::vector<double>{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1}));
  const auto across = ticks(-3, 4);
  EXPECT_LE(across.front(), -3);
  EXPECT_GE(across.back(), 4);
}

TEST(Ticks, AreFewForWhateverNumbers) {
  const double most = std::numeric_limits<double>::max();
  std::mt19937_64 random(1);
  std::vector<std::pair<double, double>> cases{{-most, most},     {most, -most}, {0, 5e-324},
                                               {5, 5 + 1e-15},    {most, most},  {1e-320, 1e300},
                                               {-1e16, -1e16 + 2}};
  std::uniform_real_distribution<double> power(-308, 308);
  for (int i = 0; i < 1000; ++i) {
    const double from = std::pow(10, power(random)), to = std::pow(10, power(random));
    cases.emplace_back(i % 2 == 0 ? from : -from, to);
  }
  for (const auto& [from, to] : cases) {
    const auto all = ticks(from, to);
    ASSERT_GE(all.size(), 2U) << from << " " << to;
    ASSERT_LE(all.size(), 12U) << from << " " << to;
    EXPECT_TRUE(std::isfinite(all.front()) && std::isfinite(all.back()));
    for (std::size_t i = 1; i < all.size(); ++i) EXPECT_GT(all[i], all[i - 1]);
    const double step = all[1] - all[0];
    const bool is_drawn_whole = std::abs(from) < 1e306 && std::abs(to) < 1e306 && from < to;
    if (is_drawn_whole) {
      EXPECT_GE(all.back() + 0.002 * step, to) << from;
    }
  }
}

TEST(LineChart, OfNothingIsNothing) {
  EXPECT_EQ(line_chart({.title = "t", .series = {{.name = "a", .style = "c0"}}}), "");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(line_chart({.series = {{.style = "c0", .points = {{1, nan}}}}}), "");
}

TEST(LineChart, LeavesOutWhatIsNoNumber) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::string chart =
      line_chart({.series = {{.style = "c0", .points = {{1, 1}, {2, infinity}, {3, 2}}}}});
  EXPECT_EQ(chart.find("inf"), std::string::npos);
  EXPECT_NE(chart.find("polyline"), std::string::npos);
}

// What does not fit in front of the axis is cut off.
TEST(LineChart, HasShortLabels) {
  const auto chart_up_to = [](double most) {
    return line_chart({.series = {{.style = "c0", .points = {{1, 0}, {50'000, most}}}}});
  };
  const std::string speed = chart_up_to(121'000);
  for (const char* label : {">0<", ">25 K<", ">125 K<", ">50 K<"}) {
    EXPECT_NE(speed.find(label), std::string::npos) << label;
  }
  EXPECT_NE(chart_up_to(1.21e-5).find(">1.25e-5<"), std::string::npos);
  EXPECT_NE(chart_up_to(2.4e7).find(">25 M<"), std::string::npos);
  EXPECT_NE(chart_up_to(2.4e300).find(">2.5e300<"), std::string::npos);
  EXPECT_NE(chart_up_to(0.0024).find(">0.0025<"), std::string::npos);
}

TEST(StackedBarsPicture, EscapesItsWords) {
  const std::string text = stacked_bars({.names = {"<a>"},
                                         .rows = {{.label = "b&c", .parts = {2}, .total = "\"2\""}},
                                         .unit_name = "<ms>"})
                               .text();
  EXPECT_EQ(text.find("<a>"), std::string::npos);
  EXPECT_NE(text.find("b&amp;c"), std::string::npos);
  EXPECT_NE(text.find("&lt;a&gt;: 2.00 &lt;ms&gt;"), std::string::npos);
}

TEST(StackedBarsPicture, StaysInItsFrame) {
  const double most = std::numeric_limits<double>::max();
  for (const double part : {0.0, -5.0, 1e-310, most}) {
    const std::string text =
        stacked_bars({.names = {"a", "b"}, .rows = {{.label = "r", .parts = {part, part}}}}).text();
    EXPECT_EQ(text.find("nan"), std::string::npos) << part;
    EXPECT_EQ(text.find("inf"), std::string::npos) << part;
    EXPECT_LT(text.size(), 20'000U);
  }
}

}  // namespace
}  // namespace zeroshard
