#include "zeroshard/monitor/report.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/monitor/page.h"
#include "zeroshard/monitor/run_data.h"
#include "zeroshard/monitor/svg.h"

namespace zeroshard {
namespace {

// More points than a screen has columns only make the file large.
constexpr std::size_t kMostPoints = 1200;

// Of files that say anything: bytes and counts are whole numbers, and no more than there are.
std::int64_t whole(double value) {
  constexpr double kMost = 9e18;
  return std::isnan(value) ? 0 : std::llround(std::clamp(value, -kMost, kMost));
}

std::string bytes_text(double bytes) { return human_bytes(whole(bytes)); }

double mean(const Points& points, std::size_t begin, std::size_t end) {
  double sum = 0;  // of shares, which stay finite
  for (std::size_t i = begin; i < end; ++i) {
    sum += points[i].second / static_cast<double>(end - begin);
  }
  return sum;
}

// Means of neighbours.
Points thinned(const Points& points) {
  if (points.size() <= kMostPoints) return points;
  Points out;
  const std::size_t each = (points.size() + kMostPoints - 1) / kMostPoints;
  for (std::size_t begin = 0; begin < points.size(); begin += each) {
    const std::size_t end = std::min(points.size(), begin + each);
    out.emplace_back(points[end - 1].first, mean(points, begin, end));
  }
  return out;
}

// A mean over some neighbours on both sides, which shows where a noisy curve goes.
Points smoothed(const Points& points) {
  const std::size_t reach = points.size() / 40;
  Points out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t begin = i - std::min(i, reach), end = std::min(points.size(), i + reach + 1);
    out.emplace_back(points[i].first, mean(points, begin, end));
  }
  return out;
}

double median(const Points& points) {
  std::vector<double> values;
  for (const auto& [step, value] : points) values.push_back(value);
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

Points column(const RunData& data, const char* key) {
  const auto found = data.columns.find(key);
  return found == data.columns.end() ? Points{} : found->second;
}

std::string charts(const RunData& data) {
  const Points loss = thinned(column(data, "loss"));
  LineChart losses{.title = "Loss by step"};
  const bool noisy = loss.size() >= 80;
  losses.series.push_back(
      {.name = noisy ? "each step" : "training", .style = "c0", .points = loss, .faint = noisy});
  if (noisy) losses.series.push_back({.name = "smoothed", .style = "c0", .points = smoothed(loss)});
  if (!data.evaluations.empty()) {
    losses.series.push_back({.name = "evaluation", .style = "c1", .points = data.evaluations});
  }
  std::string out = "<div class=\"charts\">\n" + line_chart(losses);
  const auto one = [&](const char* key, const char* title, const char* unit, bool from_zero) {
    out += line_chart({.title = title,
                       .unit = unit,
                       .series = {{.style = "c0", .points = thinned(column(data, key))}},
                       .from_zero = from_zero});
  };
  one("lr", "Learning rate", "", true);
  one("tokens_per_s", "Speed", "tokens/s", true);
  one("grad_norm", "Norm of the gradient, before clipping", "", true);
  return out + "</div>\n";
}

// Medians of the parts, as one bar, and what a step sends.
std::string where_time_goes(const RunData& data) {
  const double step = median(column(data, "step_ms"));
  std::string out = fmt::format("<p>A step takes {:.4g} ms (median).", step);
  double sent = 0;
  for (const auto& [operation, bytes] : data.sent) sent += bytes;
  if (sent > 0) {
    out += fmt::format(" Each rank sends {} in it.", bytes_text(sent));
  }
  out += "</p>\n";
  if (data.times.empty()) {
    return out +
           "<p class=\"soft\">Where it goes is in the log of a run with --report or "
           "wall_clock_breakdown.</p>\n";
  }
  StackedBars bars{.unit = 1, .unit_name = "ms"};
  StackedBars::Row row{.label = "a step", .total = fmt::format("{:.4g} ms", step)};
  double known = 0;
  for (const auto& [name, points] : data.times) {
    bars.names.push_back(name == "step" ? "norm and update" : name);
    row.parts.push_back(median(points));
    known += row.parts.back();
  }
  bars.names.emplace_back("the rest: data, log, other ranks");
  row.parts.push_back(std::max(0.0, step - known));
  bars.rows.push_back(std::move(row));
  return out + "<div class=\"scroll\">" + stacked_bars(bars).text() + "</div>\n";
}

std::string difference(double planned, double measured) {
  if (planned == measured) return "exact";
  if (planned == 0) return "-";
  const double off = 100 * (measured - planned) / planned;
  return std::abs(off) < 0.05 ? "0.0 %" : fmt::format("{:+.1f} %", off);
}

// Rows of what was planned and measured; those that the run has found to be off stand out.
class MemoryTableRows {
 public:
  explicit MemoryTableRows(const rapidjson::Value& memory) : memory_(memory) {
    content_.rows.push_back({"of one rank", "planned", "at most measured", "difference"});
  }

  // Of a section's parts, or of the section itself.
  void add(const char* section, const std::string& prefix) {
    const auto found = memory_.FindMember(section);
    if (found == memory_.MemberEnd() || !found->value.IsObject()) return;
    const rapidjson::Value& both = found->value;
    if (!both.HasMember("planned") || !both.HasMember("measured")) return;
    if (!both["planned"].IsObject())
      return add_row(section, prefix, both, both, "planned", "measured");
    for (const auto& member : both["planned"].GetObject()) {
      const char* const name = member.name.GetString();
      add_row(std::string(section) + " " + name, prefix + name, both["planned"], both["measured"],
              name, name);
    }
  }

  std::string text() const { return table(content_); }

 private:
  void add_row(const std::string& name, const std::string& shown, const rapidjson::Value& planned,
               const rapidjson::Value& measured, const char* of_planned, const char* of_measured) {
    const double before = number_in(planned, of_planned).value_or(0);
    const double after = number_in(measured, of_measured).value_or(0);
    if (before == 0 && after == 0) return;
    if (is_off(name)) content_.marked.push_back(content_.rows.size());
    content_.rows.push_back(
        {shown, bytes_text(before), bytes_text(after), difference(before, after)});
  }

  bool is_off(const std::string& name) const {
    const auto off = memory_.FindMember("off");
    if (off == memory_.MemberEnd() || !off->value.IsArray()) return false;
    return std::ranges::any_of(off->value.GetArray(), [&](const rapidjson::Value& each) {
      return each.IsString() && name == each.GetString();
    });
  }

  const rapidjson::Value& memory_;
  PageTable content_;
};

std::string memory(const RunData& data) {
  if (!data.memory.IsObject()) {
    return "<p class=\"soft\">The run has not come to its end, where memory is compared with the "
           "plan.</p>\n";
  }
  MemoryTableRows rows(data.memory["memory"]);
  rows.add("device", "device: ");
  rows.add("host", "host: ");
  rows.add("phases", "device in all, ");
  rows.add("beside", "beside the engine: ");
  rows.add("host_total", "host in all, above what the process had before");
  rows.add("process", "the process, above what it had before");
  return rows.text();
}

std::string fact(const std::string& value, const std::string& name) {
  return fmt::format("<div><b>{}</b><span>{}</span></div>", escaped(value), escaped(name));
}

std::string facts(const RunData& data) {
  std::string out = "<div class=\"facts\">";
  const Points loss = column(data, "loss");
  out += fact(loss.empty() ? "none" : fmt::format("{:.4g}", loss.back().second), "last loss");
  if (!data.evaluations.empty()) {
    out += fact(fmt::format("{:.4g}", data.evaluations.back().second), "evaluation loss");
  }
  out += fact(fmt::format("{}", data.steps.size()), data.steps.size() == 1 ? "step" : "steps");
  if (!data.skipped_steps.empty()) {
    out += fact(fmt::format("{}", data.skipped_steps.size()), "skipped");
  }
  const Points speed = column(data, "tokens_per_s"), time = column(data, "time");
  if (!speed.empty()) out += fact(human_count(whole(median(speed))), "tokens/s (median)");
  if (!time.empty() && time.back().second > time.front().second) {
    out += fact(fmt::format("{:.0f} s", time.back().second - time.front().second),
                "first to last step");
  }
  for (const auto& [name, value] : data.facts) {
    if (name != "model") out += fact(value, name);
  }
  return out + "</div>\n";
}

}  // namespace

std::string report_page(std::string_view log) {
  const RunData data = read_run_log(log);
  std::string title = "A training run";
  std::string body = "<h1>A training run</h1>\n";
  for (const auto& [name, value] : data.facts) {
    if (name == "model") body += "<p>" + escaped(value) + "</p>\n";
  }
  body += facts(data);
  body += charts(data);
  if (data.columns.contains("step_ms")) {
    body += "<h2>Where the time of a step goes</h2>\n" + where_time_goes(data);
  }
  body += "<h2>Memory, beside the plan</h2>\n" + memory(data);
  return page(title, body);
}

}  // namespace zeroshard
