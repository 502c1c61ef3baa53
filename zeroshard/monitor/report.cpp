#include "zeroshard/monitor/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <rapidjson/document.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"
#include "zeroshard/monitor/page.h"
#include "zeroshard/monitor/svg.h"

namespace zeroshard {
namespace {

using Points = std::vector<std::pair<double, double>>;

// More points than a screen has columns only make the file large.
constexpr std::size_t kMostPoints = 1200;

struct RunData {
  std::map<std::string, Points, std::less<>> columns;  // by the log's key
  Points evaluations;
  std::vector<std::pair<std::string, Points>> times;  // of each part of a step, in ms
  std::map<std::string, double, std::less<>> sent;    // bytes of the last step, by operation
  std::vector<std::pair<std::string, std::string>> facts;
  rapidjson::Document memory;  // the log's record
  double first_time = 0, last_time = 0, last_step = 0;
  std::int64_t steps = 0, skipped = 0;
};

std::optional<double> number(const rapidjson::Value& object, const char* key) {
  const auto member = object.FindMember(key);
  if (member == object.MemberEnd() || !member->value.IsNumber()) return std::nullopt;
  return member->value.GetDouble();
}

void add_times(const rapidjson::Value& times, double step, RunData& data) {
  for (const auto& member : times.GetObject()) {
    if (!member.value.IsNumber()) continue;
    const std::string name = member.name.GetString();
    auto found = std::ranges::find(data.times, name, &std::pair<std::string, Points>::first);
    if (found == data.times.end()) found = data.times.insert(found, {name, {}});
    found->second.emplace_back(step, member.value.GetDouble());
  }
}

void add_step(const rapidjson::Value& line, double step, RunData& data) {
  for (const char* key : {"loss", "grad_norm", "lr", "tokens_per_s", "step_ms"}) {
    if (const auto value = number(line, key)) data.columns[key].emplace_back(step, *value);
  }
  ++data.steps;
  const auto skipped = line.FindMember("skipped");
  if (skipped != line.MemberEnd() && skipped->value.IsTrue()) ++data.skipped;
  if (const auto time = number(line, "time")) {
    if (data.first_time == 0) data.first_time = *time;
    data.last_time = *time;
  }
  const auto times = line.FindMember("times_ms");
  if (times != line.MemberEnd() && times->value.IsObject()) add_times(times->value, step, data);
  const auto sent = line.FindMember("sent_bytes");
  if (sent == line.MemberEnd() || !sent->value.IsObject()) return;
  for (const auto& member : sent->value.GetObject()) {
    if (member.value.IsNumber()) data.sent[member.name.GetString()] = member.value.GetDouble();
  }
}

void add_facts(const rapidjson::Value& run, RunData& data) {
  const auto add = [&](const char* key, const char* shown) {
    const auto member = run.FindMember(key);
    if (member == run.MemberEnd()) return;
    const rapidjson::Value& value = member->value;
    std::string text;
    if (value.IsString()) text = value.GetString();
    if (value.IsInt64()) text = fmt::format("{}", value.GetInt64());
    if (!text.empty()) data.facts.emplace_back(shown, text);
  };
  add("model", "model");
  add("stage", "stage");
  add("ranks", "ranks");
  add("device", "device");
  add("precision", "precision");
  add("batch", "samples of a step");
  add("micro_batch", "micro-batch");
  add("micro_steps", "micro-steps");
}

void add_line(std::string_view text, RunData& data) {
  rapidjson::Document line;
  line.Parse<rapidjson::kParseIterativeFlag>(text.data(), text.size());
  if (line.HasParseError() || !line.IsObject()) return;
  if (line.HasMember("run") && line["run"].IsObject()) add_facts(line["run"], data);
  if (line.HasMember("memory") && line["memory"].IsObject()) {
    data.memory.CopyFrom(line["memory"], data.memory.GetAllocator());
    return;
  }
  const auto step = number(line, "step");
  if (!step) return;
  // What stands before was another run, to whose log this one was appended.
  if (*step < data.last_step) data = {};
  data.last_step = *step;
  if (const auto loss = number(line, "eval_loss")) {
    data.evaluations.emplace_back(*step, *loss);
  } else if (line.HasMember("loss")) {
    add_step(line, *step, data);
  }
}

RunData read_log(std::string_view log) {
  RunData data;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(log.size(), line.size() + 1));
    add_line(line, data);
  }
  if (data.steps > 0) return data;
  throw ConfigError({.what = "there is no step in this log",
                     .value = "",
                     .remedy = "name a file that `zeroshard train --log` has written"});
}

// Means of neighbours.
Points thinned(const Points& points) {
  if (points.size() <= kMostPoints) return points;
  Points out;
  const std::size_t each = (points.size() + kMostPoints - 1) / kMostPoints;
  for (std::size_t begin = 0; begin < points.size(); begin += each) {
    const std::size_t end = std::min(points.size(), begin + each);
    double value = 0;
    for (std::size_t i = begin; i < end; ++i) value += points[i].second;
    out.emplace_back(points[end - 1].first, value / static_cast<double>(end - begin));
  }
  return out;
}

// A mean over some neighbours on both sides, which shows where a noisy curve goes.
Points smoothed(const Points& points) {
  const std::size_t reach = points.size() / 40;
  Points out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t begin = i - std::min(i, reach), end = std::min(points.size(), i + reach + 1);
    double sum = 0;
    for (std::size_t j = begin; j < end; ++j) sum += points[j].second;
    out.emplace_back(points[i].first, sum / static_cast<double>(end - begin));
  }
  return out;
}

double median(const Points& points) {
  std::vector<double> values;
  for (const auto& [step, value] : points) values.push_back(value);
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

std::string charts(const RunData& data) {
  const auto column = [&](const char* key) {
    const auto found = data.columns.find(key);
    return found == data.columns.end() ? Points{} : thinned(found->second);
  };
  const Points loss = column("loss");
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
                       .series = {{.style = "c0", .points = column(key)}},
                       .from_zero = from_zero});
  };
  one("lr", "Learning rate", "", true);
  one("tokens_per_s", "Speed", "tokens/s", true);
  one("grad_norm", "Norm of the gradient, before clipping", "", true);
  return out + "</div>\n";
}

// Medians of the parts, as one bar, and what a step sends.
std::string where_time_goes(const RunData& data) {
  const double step = median(data.columns.at("step_ms"));
  std::string out = fmt::format("<p>A step takes {:.4g} ms (median).", step);
  double sent = 0;
  for (const auto& [operation, bytes] : data.sent) sent += bytes;
  if (sent > 0) {
    out += fmt::format(" Each rank sends {} in it.", human_bytes(std::llround(sent)));
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

void add_rows(const rapidjson::Value& both, const std::string& prefix, PageTable& content) {
  if (!both.IsObject() || !both.HasMember("planned") || !both.HasMember("measured")) return;
  if (!both["planned"].IsObject()) return;
  for (const auto& member : both["planned"].GetObject()) {
    const char* const name = member.name.GetString();
    const double planned = member.value.IsNumber() ? member.value.GetDouble() : 0;
    const double measured = number(both["measured"], name).value_or(0);
    if (planned == 0 && measured == 0) continue;
    content.rows.push_back({prefix + name, human_bytes(std::llround(planned)),
                            human_bytes(std::llround(measured)), difference(planned, measured)});
  }
}

std::string memory(const RunData& data) {
  if (!data.memory.IsObject()) {
    return "<p class=\"soft\">The run has not come to its end, where memory is compared with the "
           "plan.</p>\n";
  }
  PageTable content{.rows = {{"of one rank", "planned", "at most measured", "difference"}}};
  const auto section = [&](const char* key, const std::string& prefix) {
    if (data.memory.HasMember(key)) add_rows(data.memory[key], prefix, content);
  };
  section("device", "device: ");
  section("host", "host: ");
  section("phases", "device in all, ");
  if (data.memory.HasMember("process") && data.memory["process"].IsObject()) {
    const rapidjson::Value& process = data.memory["process"];
    const double planned = number(process, "planned").value_or(0);
    const double measured = number(process, "measured").value_or(0);
    content.rows.push_back({"the process, above what it had before",
                            human_bytes(std::llround(planned)), human_bytes(std::llround(measured)),
                            difference(planned, measured)});
  }
  return table(content);
}

std::string fact(const std::string& value, const std::string& name) {
  return fmt::format("<div><b>{}</b><span>{}</span></div>", escaped(value), escaped(name));
}

std::string facts(const RunData& data) {
  std::string out = "<div class=\"facts\">";
  out += fact(fmt::format("{:.4g}", data.columns.at("loss").back().second), "last loss");
  if (!data.evaluations.empty()) {
    out += fact(fmt::format("{:.4g}", data.evaluations.back().second), "evaluation loss");
  }
  out += fact(fmt::format("{}", data.steps), data.steps == 1 ? "step" : "steps");
  if (data.skipped > 0) out += fact(fmt::format("{}", data.skipped), "skipped");
  const auto speed = data.columns.find("tokens_per_s");
  if (speed != data.columns.end()) {
    out += fact(human_count(std::llround(median(speed->second))), "tokens/s (median)");
  }
  if (data.last_time > data.first_time) {
    out += fact(fmt::format("{:.0f} s", data.last_time - data.first_time), "first to last step");
  }
  for (const auto& [name, value] : data.facts) {
    if (name != "model") out += fact(value, name);
  }
  return out + "</div>\n";
}

}  // namespace

std::string report_page(std::string_view log) {
  const RunData data = read_log(log);
  std::string title = "A training run";
  std::string body = "<h1>A training run</h1>\n";
  for (const auto& [name, value] : data.facts) {
    if (name == "model") body += "<p>" + escaped(value) + "</p>\n";
  }
  body += facts(data);
  if (data.columns.contains("loss")) body += charts(data);
  if (data.columns.contains("step_ms")) {
    body += "<h2>Where the time of a step goes</h2>\n" + where_time_goes(data);
  }
  body += "<h2>Memory, beside the plan</h2>\n" + memory(data);
  return page(title, body);
}

}  // namespace zeroshard
