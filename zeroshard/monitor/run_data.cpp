#include "zeroshard/monitor/run_data.h"

#include <algorithm>

#include <fmt/format.h>

#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

// Steps ascend.
void cut_points(double from, Points& points) {
  while (!points.empty() && points.back().first >= from) points.pop_back();
}

void cut_steps(double from, std::vector<double>& steps) {
  while (!steps.empty() && steps.back() >= from) steps.pop_back();
}

// The run goes on from before `from`, or is another one whose log was appended.
void cut(double from, RunData& data) {
  for (auto& [key, points] : data.columns) cut_points(from, points);
  for (auto& [name, points] : data.times) cut_points(from, points);
  cut_points(from, data.evaluations);
  cut_steps(from, data.steps);
  cut_steps(from, data.skipped_steps);
  data.memory.SetNull();
  if (data.steps.empty()) data = {};
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
  if (!data.steps.empty() && step <= data.steps.back()) cut(step, data);
  data.steps.push_back(step);
  for (const char* key : {"loss", "grad_norm", "lr", "tokens_per_s", "step_ms", "time"}) {
    if (const auto value = number_in(line, key)) data.columns[key].emplace_back(step, *value);
  }
  const auto skipped = line.FindMember("skipped");
  if (skipped != line.MemberEnd() && skipped->value.IsTrue()) data.skipped_steps.push_back(step);
  const auto times = line.FindMember("times_ms");
  if (times != line.MemberEnd() && times->value.IsObject()) add_times(times->value, step, data);
  const auto sent = line.FindMember("sent_bytes");
  if (sent == line.MemberEnd() || !sent->value.IsObject()) return;
  data.sent.clear();
  for (const auto& member : sent->value.GetObject()) {
    if (member.value.IsNumber()) data.sent[member.name.GetString()] = member.value.GetDouble();
  }
}

// It comes behind the step that it is of, whose values a resumed run may find in its checkpoint.
void add_evaluation(double step, double loss, RunData& data) {
  if (!data.steps.empty() && step < data.steps.back()) cut(step + 1, data);
  cut_points(step, data.evaluations);
  data.evaluations.emplace_back(step, loss);
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
  data.facts.clear();
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
    data.memory = std::move(line);
    return;
  }
  const auto step = number_in(line, "step");
  if (!step) return;
  if (const auto loss = number_in(line, "eval_loss")) {
    add_evaluation(*step, *loss, data);
  } else if (line.HasMember("loss")) {
    add_step(line, *step, data);
  }
}

}  // namespace

std::optional<double> number_in(const rapidjson::Value& object, const char* key) {
  if (!object.IsObject()) return std::nullopt;
  const auto member = object.FindMember(key);
  if (member == object.MemberEnd() || !member->value.IsNumber()) return std::nullopt;
  return member->value.GetDouble();
}

RunData read_run_log(std::string_view log) {
  RunData data;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(log.size(), line.size() + 1));
    add_line(line, data);
  }
  if (!data.steps.empty()) return data;
  throw ConfigError({.what = "there is no step in this log",
                     .value = "",
                     .remedy = "name a file that `zeroshard train --log` has written"});
}

}  // namespace zeroshard
