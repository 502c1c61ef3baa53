// Against what DeepSpeed itself computed; golden_schedules.tsv says how its numbers were made.

#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/schedule/value_lists.h"

namespace zeroshard::test {
namespace {

using Params = std::map<std::string, std::string>;

struct GoldenRow {
  std::string type;
  double optimizer_lr = 0.0;
  Params params;
  std::string quantity;
  std::vector<double> values;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

Params read_params(const std::string& text) {
  Params params;
  for (const auto& pair : split(text, ' ')) {
    const auto equals = pair.find('=');
    params[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return params;
}

std::vector<GoldenRow> read_golden() {
  std::ifstream file(std::string(ZEROSHARD_SOURCE_DIR) + "/tests/schedule/golden_schedules.tsv");
  std::vector<GoldenRow> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    const auto cells = split(line, '\t');
    GoldenRow row{cells.at(0), std::stod(cells.at(1)), read_params(cells.at(2)), cells.at(3), {}};
    for (std::size_t i = 4; i < cells.size(); ++i) row.values.push_back(std::stod(cells[i]));
    rows.push_back(std::move(row));
  }
  return rows;
}

// Takes params one by one, so that a name no reader asked for is noticed at the end.
class ParamReader {
 public:
  explicit ParamReader(Params params) : params_(std::move(params)) {}
  ~ParamReader() {
    for (const auto& [name, value] : params_) ADD_FAILURE() << "nobody reads " << name;
  }

  template <typename T>
  void read(const char* name, T& field) {
    const auto node = params_.extract(name);
    if (node.empty()) return;
    set(node.mapped(), field);
  }

 private:
  static void set(const std::string& text, double& field) { field = std::stod(text); }
  static void set(const std::string& text, std::int64_t& field) { field = std::stoll(text); }
  static void set(const std::string& text, bool& field) { field = text == "true"; }
  static void set(const std::string& text, WarmupShape& field) {
    field = text == "log" ? WarmupShape::log : WarmupShape::linear;
  }
  template <typename T>
  static void set(const std::string& text, std::optional<T>& field) {
    set(text, field.emplace());
  }

  Params params_;
};

ScheduleOptions range_test(ParamReader reader) {
  LrRangeTestOptions options;
  reader.read("lr_range_test_min_lr", options.min_lr);
  reader.read("lr_range_test_step_size", options.step_size);
  reader.read("lr_range_test_step_rate", options.step_rate);
  reader.read("lr_range_test_staircase", options.staircase);
  return options;
}

ScheduleOptions one_cycle(ParamReader reader) {
  OneCycleOptions options;
  reader.read("cycle_min_lr", options.min_lr);
  reader.read("cycle_max_lr", options.max_lr);
  reader.read("decay_lr_rate", options.decay_lr_rate);
  reader.read("cycle_first_step_size", options.first_step_size);
  reader.read("cycle_second_step_size", options.second_step_size);
  reader.read("decay_step_size", options.decay_step_size);
  reader.read("cycle_first_stair_count", options.first_stair_count);
  reader.read("cycle_second_stair_count", options.second_stair_count);
  reader.read("cycle_momentum", options.cycle_momentum);
  reader.read("cycle_min_mom", options.min_momentum);
  reader.read("cycle_max_mom", options.max_momentum);
  reader.read("decay_mom_rate", options.decay_momentum_rate);
  return options;
}

ScheduleOptions warmup(ParamReader reader) {
  WarmupLrOptions options;
  reader.read("warmup_min_lr", options.min_lr);
  reader.read("warmup_max_lr", options.max_lr);
  reader.read("warmup_num_steps", options.num_steps);
  reader.read("warmup_type", options.shape);
  return options;
}

ScheduleOptions warmup_decay(ParamReader reader) {
  WarmupDecayLrOptions options;
  reader.read("total_num_steps", options.total_num_steps);
  reader.read("warmup_min_lr", options.min_lr);
  reader.read("warmup_max_lr", options.max_lr);
  reader.read("warmup_num_steps", options.num_steps);
  reader.read("warmup_type", options.shape);
  return options;
}

ScheduleOptions warmup_cosine(ParamReader reader) {
  WarmupCosineLrOptions options;
  reader.read("total_num_steps", options.total_num_steps);
  reader.read("warmup_min_ratio", options.min_ratio);
  reader.read("warmup_num_steps", options.num_steps);
  reader.read("cos_min_ratio", options.cos_min_ratio);
  reader.read("warmup_type", options.shape);
  return options;
}

ScheduleOptions options_of(const GoldenRow& row) {
  static const std::map<std::string, std::function<ScheduleOptions(const Params&)>> kReaders{
      {"LRRangeTest", [](const Params& p) { return range_test(ParamReader(p)); }},
      {"OneCycle", [](const Params& p) { return one_cycle(ParamReader(p)); }},
      {"WarmupLR", [](const Params& p) { return warmup(ParamReader(p)); }},
      {"WarmupDecayLR", [](const Params& p) { return warmup_decay(ParamReader(p)); }},
      {"WarmupCosineLR", [](const Params& p) { return warmup_cosine(ParamReader(p)); }},
  };
  return kReaders.at(row.type)(row.params);
}

class GoldenSchedule : public testing::TestWithParam<const char*> {};

TEST_P(GoldenSchedule, EqualsDeepSpeed) {
  int rows = 0;
  for (const auto& row : read_golden()) {
    if (row.type != GetParam()) continue;
    SCOPED_TRACE(testing::Message() << row.type << " row " << ++rows << ", " << row.quantity);
    ASSERT_EQ(row.values.size(), 61u);
    const auto options = options_of(row);
    const auto got = row.quantity == "lr" ? lr_list(options, row.values.size(), row.optimizer_lr)
                                          : beta1_list(options, row.values.size());
    expect_near(got, row.values, 1e-8);
  }
  EXPECT_GE(rows, 6);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenSchedule,
                         testing::Values("LRRangeTest", "OneCycle", "WarmupLR", "WarmupDecayLR",
                                         "WarmupCosineLR"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace zeroshard::test
