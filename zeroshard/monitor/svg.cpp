#include "zeroshard/monitor/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/monitor/page.h"

namespace zeroshard {
namespace {

// 1.25e-5, and not 1.25e-05: a label has room for seven letters.
std::string with_exponent(double value) {
  std::string text = fmt::format("{:.3g}", value);
  const auto exponent = text.find('e');
  if (exponent == text.npos) return text;
  if (text[exponent + 1] == '+') text.erase(exponent + 1, 1);
  const auto digits = text.find_first_of("0123456789", exponent);
  while (text[digits] == '0' && digits + 1 < text.size()) text.erase(digits, 1);
  return text;
}

// Whole numbers as such, others with as many digits as they need; 125 K where they are large.
std::string number(double value) {
  const double size = std::abs(value);
  const auto round = [](double of) { return std::round(of * 1e4) / 1e4; };
  if (value != 0 && (size < 1e-3 || size >= 1e15)) return with_exponent(value);
  if (size < 1e4) return fmt::format("{:g}", round(value));
  constexpr std::array<std::pair<double, char>, 4> kUnits{
      {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}}};
  const auto unit = std::ranges::find_if(kUnits, [&](const auto& of) { return size >= of.first; });
  return fmt::format("{:g} {}", round(value / unit->first), unit->second);
}

constexpr double kMostDrawn = 1e307;
constexpr double kMostTicks = 12;

struct LegendPlace {
  double x = 0;
  int row = 0;
};

// From left to right, in as many rows as it takes.
std::vector<LegendPlace> legend_places(const std::vector<std::string>& names, double width) {
  std::vector<LegendPlace> places;
  LegendPlace next;
  for (const std::string& name : names) {
    const double wide = 38 + 6.5 * static_cast<double>(name.size());
    if (next.x > 0 && next.x + wide > width) next = {0, next.row + 1};
    places.push_back(next);
    next.x += wide;
  }
  return places;
}

struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void see(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

}  // namespace

void Svg::rect(const Box& box, std::string_view style, std::string_view hint) {
  body_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"{}\">{}</rect>\n",
      box.x, box.y, std::max(box.width, 0.0), box.height, style,
      hint.empty() ? "" : "<title>" + escaped(hint) + "</title>");
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view style) {
  body_ +=
      fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n",
                  x1, y1, x2, y2, style);
}

void Svg::words(double x, double y, std::string_view text, const SvgWords& how) {
  body_ +=
      fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n", x,
                  y, how.anchor, how.style, escaped(text));
}

void Svg::curve(std::span<const std::pair<double, double>> points, std::string_view style) {
  if (points.empty()) return;
  std::string path;
  for (const auto& [x, y] : points) path += fmt::format("{:.1f},{:.1f} ", x, y);
  path.pop_back();
  body_ += fmt::format("<polyline points=\"{}\" class=\"curve {}\"/>\n", path, style);
}

std::string Svg::element(const std::string& style) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\"{}>\n"
      "{}{}</svg>\n",
      width_, height_, style.empty() ? "" : fmt::format(" width=\"{:.0f}\"", width_),
      style.empty() ? ""
                    : "<style>" + style + "</style>\n" +
                          fmt::format("<rect width=\"{:.0f}\" height=\"{:.0f}\" "
                                      "class=\"ground\"/>\n",
                                      width_, height_),
      body_);
}

std::string Svg::text() const { return element(""); }
std::string Svg::file() const { return element(picture_style()); }

std::vector<double> ticks(double from, double to) {
  // Differences of what is drawn are finite, and steps not lost beside the numbers they lead to.
  from = std::clamp(from, -kMostDrawn, kMostDrawn);
  to = std::clamp(to, -kMostDrawn, kMostDrawn);
  const double least = std::max(1e-300, 1e-12 * std::max(std::abs(from), std::abs(to)));
  if (!(to - from > least)) to = from + (std::abs(from) < 1e-300 ? 1 : std::abs(from));
  const double rough = (to - from) / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double each : {1.0, 2.0, 2.5, 5.0, 10.0}) {
    step = each * power;
    if (step >= rough * 0.999) break;
  }
  std::vector<double> all;
  const double first = std::floor(from / step + 1e-9);
  for (double count = 0; count < kMostTicks; ++count) {
    const double tick = (first + count) * step;
    if (tick >= to + step * 0.999) break;
    all.push_back(std::abs(tick) < step * 1e-9 ? 0 : tick);
  }
  return all;
}

std::string line_chart(const LineChart& chart) {
  constexpr double kWidth = 560, kHeight = 250, kLeft = 62, kRight = 14, kTop = 30, kBottom = 34;
  Extent x, y;
  for (const LineChart::Series& series : chart.series) {
    for (const auto& [step, value] : series.points) {
      if (!std::isfinite(value)) continue;
      x.see(std::clamp(step, -kMostDrawn, kMostDrawn));
      y.see(std::clamp(value, -kMostDrawn, kMostDrawn));
    }
  }
  if (!(x.high >= x.low)) return {};
  const std::vector<double> up = ticks(chart.from_zero ? std::min(0.0, y.low) : y.low, y.high);
  const double low = up.front(), high = up.back();
  const double last = std::max(x.high, x.low + std::max(1.0, 1e-12 * std::abs(x.low)));
  const auto at_x = [&](double step) {
    const double share = (std::clamp(step, x.low, last) - x.low) / (last - x.low);
    return kLeft + share * (kWidth - kLeft - kRight);
  };
  const auto at_y = [&](double value) {
    const double share = (std::clamp(value, low, high) - low) / (high - low);
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  };
  Svg svg(kWidth, kHeight);
  double at = kLeft;
  for (const LineChart::Series& series : chart.series) {
    if (chart.series.size() < 2 || series.name.empty()) continue;
    svg.line(at, 14, at + 18, 14, "curve " + series.style + (series.faint ? " faint" : ""));
    svg.words(at + 24, 18, series.name, {.style = "soft"});
    at += 40 + 8.6 * static_cast<double>(series.name.size());
  }
  for (const double tick : up) {
    svg.line(kLeft, at_y(tick), kWidth - kRight, at_y(tick), "axis");
    svg.words(kLeft - 8, at_y(tick) + 4, number(tick), {.style = "soft", .anchor = "end"});
  }
  for (const double tick : ticks(x.low, last)) {
    if (tick < x.low || tick > last) continue;
    svg.words(at_x(tick), kHeight - kBottom + 18, number(tick),
              {.style = "soft", .anchor = "middle"});
  }
  for (const LineChart::Series& series : chart.series) {
    std::vector<std::pair<double, double>> points;
    for (const auto& [step, value] : series.points) {
      if (std::isfinite(value)) points.emplace_back(at_x(step), at_y(value));
    }
    svg.curve(points, series.style + (series.faint ? " faint" : ""));
  }
  return fmt::format("<figure><figcaption>{}{}</figcaption>{}</figure>\n", escaped(chart.title),
                     chart.unit.empty() ? "" : ", " + escaped(chart.unit), svg.text());
}

Svg stacked_bars(const StackedBars& bars) {
  constexpr double kWidth = 920, kRow = 30, kBar = 18, kRight = 118;
  std::size_t longest = 0;
  for (const StackedBars::Row& row : bars.rows) longest = std::max(longest, row.label.size());
  const double left = 28 + 7.8 * static_cast<double>(longest);
  const std::vector<LegendPlace> places = legend_places(bars.names, kWidth - 32);
  const double title = bars.title.empty() ? 0 : 28;
  const double top = title + 22 * (places.empty() ? 0 : places.back().row + 1) + 20;
  const double bottom = top + kRow * static_cast<double>(bars.rows.size());
  Svg svg(kWidth, bottom + 44);
  if (!bars.title.empty()) svg.words(16, 24, bars.title, {.style = "strong"});
  for (std::size_t i = 0; i < bars.names.size(); ++i) {
    const double x = 16 + places[i].x, y = title + 22 * places[i].row;
    svg.rect({x, y + 5, 11, 11}, fmt::format("s{}", i));
    svg.words(x + 17, y + 15, bars.names[i], {.style = "soft"});
  }

  double most = bars.limit;
  for (const StackedBars::Row& row : bars.rows) {
    double sum = 0;
    for (const double part : row.parts) sum += std::max(part, 0.0);
    most = std::max(most, std::min(sum, kMostDrawn));
  }
  // What is far beyond the limit would make everything else small.
  if (bars.limit > 0) most = std::min(most, 2.2 * bars.limit);
  const std::vector<double> along = ticks(0, most / bars.unit);
  const double scale = (kWidth - left - kRight) / (along.back() * bars.unit);
  for (const double tick : along) {
    const double x = left + tick * bars.unit * scale;
    svg.line(x, top - 8, x, bottom + 2, "axis");
    svg.words(x, bottom + 18, number(tick), {.style = "soft", .anchor = "middle"});
  }
  const double last_tick = 3.8 * static_cast<double>(number(along.back()).size());
  svg.words(left + along.back() * bars.unit * scale + last_tick + 5, bottom + 18, bars.unit_name,
            {.style = "soft"});

  const double end = along.back() * bars.unit;
  std::vector<double> ends;
  for (std::size_t r = 0; r < bars.rows.size(); ++r) {
    const StackedBars::Row& row = bars.rows[r];
    const double y = top + kRow * static_cast<double>(r);
    svg.words(left - 10, y + 14, row.label, {.style = row.strong ? "strong" : "", .anchor = "end"});
    double from = 0;
    for (std::size_t i = 0; i < row.parts.size(); ++i) {
      const double part = std::max(row.parts[i], 0.0);
      const double to = std::min(from + part, end);
      if (to > from) {
        svg.rect(
            {left + from * scale, y, (to - from) * scale, kBar}, fmt::format("s{}", i),
            fmt::format("{}: {:.2f} {}", bars.names[i], row.parts[i] / bars.unit, bars.unit_name));
      }
      from += part;
    }
    ends.push_back(from);
  }
  if (bars.limit > 0) {
    const double x = left + bars.limit * scale;
    svg.line(x, top - 12, x, bottom + 4, "limit");
    svg.words(x, bottom + 36, bars.limit_name, {.style = "soft", .anchor = "middle"});
  }
  for (std::size_t r = 0; r < bars.rows.size(); ++r) {
    const double y = top + kRow * static_cast<double>(r);
    const std::string total = (ends[r] > end ? "> " : "") + bars.rows[r].total;
    double x = left + std::min(ends[r], end) * scale + 8;
    // Words that the mark would cross stand behind it.
    const double mark = left + bars.limit * scale;
    const bool crossed =
        bars.limit > 0 && x < mark + 4 && mark < x + 7.5 * static_cast<double>(total.size());
    if (crossed) x = mark + 8;
    svg.words(x, y + 14, total, {.style = bars.rows[r].style});
  }
  return svg;
}

}  // namespace zeroshard
