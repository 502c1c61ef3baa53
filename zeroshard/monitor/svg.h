// Pictures of figures: rectangles, lines and words, in the colours of page.h.
//
//   Svg picture(880, 300);
//   picture.rect({.x = 10, .y = 10, .width = 50, .height = 12}, "s0", "parameters: 1.20 GiB");
//   picture.words(10, 40, "stage 2", {.style = "soft"});
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zeroshard {

struct SvgWords {
  std::string_view style = "";
  std::string_view anchor = "start";  // start, middle or end at x
};

class Svg {
 public:
  Svg(double width, double height) : width_(width), height_(height) {}

  struct Box {
    double x = 0;
    double y = 0;
    double width = 0;
    double height = 0;
  };
  // `style` is one of page.h's classes; `hint` shows under the mouse.
  void rect(const Box& box, std::string_view style, std::string_view hint = {});
  void line(double x1, double y1, double x2, double y2, std::string_view style);
  void words(double x, double y, std::string_view text, const SvgWords& how = {});
  void curve(std::span<const std::pair<double, double>> points, std::string_view style);

  // For a page, and for a file of its own, which has its style inside.
  std::string text() const;
  std::string file() const;

 private:
  std::string element(const std::string& style) const;

  const double width_, height_;
  std::string body_;
};

// Round numbers from 0 (or the least, where `from` is below) to at least `to`, some five of them.
std::vector<double> ticks(double from, double to);

// A curve over steps, with axes and words.
struct LineChart {
  std::string title;
  std::string unit;
  struct Series {
    std::string name;
    std::string style;  // "c0"
    std::vector<std::pair<double, double>> points;
    bool faint = false;
  };
  std::vector<Series> series;
  bool from_zero = false;
};
std::string line_chart(const LineChart& chart);

// Rows of parts beside each other, with a mark where something ends.
struct StackedBars {
  struct Row {
    std::string label;
    std::vector<double> parts;  // one for each of `names`
    std::string total;
    std::string style;  // of the total: "over", "under" or nothing
    bool strong = false;
  };
  std::vector<std::string> names;  // "s0", "s1", ... in this order
  std::vector<Row> rows;
  double limit = 0;  // 0: none
  std::string limit_name;
  std::string title;
  double unit = 1;        // the axis counts in so much
  std::string unit_name;  // "GiB"
};
Svg stacked_bars(const StackedBars& bars);

}  // namespace zeroshard
