#include "zeroshard/monitor/progress_line.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/duration.h"

namespace zeroshard {
namespace {

constexpr std::size_t kWidestBar = 40;
constexpr std::size_t kNarrowestBar = 8;  // brackets included; below, there is none
constexpr std::string_view kGap = "  ";
constexpr double kNewStepWeight = 0.1;  // of the newest step in the smoothed time
constexpr double kLongestShown = 1e9;   // seconds; a longer time left says nothing

// In the order of the line; those with the smallest rank go first where space is short.
struct Field {
  std::string text;
  int rank;
};

// `perplexity` is how that is called: a terminal's line is short of columns.
std::vector<Field> fields_of(const ProgressState& state, std::string_view perplexity) {
  std::vector<Field> fields;
  if (state.loss) fields.push_back({fmt::format("loss {:.5g}", *state.loss), 6});
  if (state.perplexity && std::isfinite(*state.perplexity)) {
    fields.push_back({fmt::format("{} {:.4g}", perplexity, *state.perplexity), 4});
  }
  if (state.learning_rate) fields.push_back({fmt::format("lr {:.3g}", *state.learning_rate), 3});
  if (state.skipped > 0) fields.push_back({fmt::format("{} skipped", state.skipped), 7});
  if (state.tokens_per_second && std::isfinite(*state.tokens_per_second)) {
    const auto tokens = static_cast<std::int64_t>(std::clamp(*state.tokens_per_second, 0.0, 1e18));
    fields.push_back({human_count(tokens) + " tokens/s", 2});
  }
  if (state.memory_bytes) fields.push_back({human_bytes(*state.memory_bytes), 1});
  if (state.left) fields.push_back({human_duration(*state.left) + " left", 5});
  return fields;
}

std::string count_of(const ProgressState& state) {
  return state.total > 0 ? fmt::format("{}/{}", state.step, state.total)
                         : fmt::format("step {}", state.step);
}

std::string joined(const std::string& count, const std::vector<Field>& fields,
                   std::string_view gap) {
  std::string line = count;
  for (const Field& field : fields) {
    line += gap;
    line += field.text;
  }
  return line;
}

void drop_least(std::vector<Field>& fields) {
  fields.erase(std::min_element(fields.begin(), fields.end(),
                                [](const Field& a, const Field& b) { return a.rank < b.rank; }));
}

// "[====>     ]", `width` columns with its brackets.
std::string bar(const ProgressState& state, std::size_t width) {
  const std::size_t inside = width - 2;
  const double done =
      std::clamp(static_cast<double>(state.step) / static_cast<double>(state.total), 0.0, 1.0);
  const auto filled = static_cast<std::size_t>(done * static_cast<double>(inside));
  std::string text = "[" + std::string(filled, '=');
  if (filled < inside) text += '>' + std::string(inside - filled - 1, ' ');
  return text + "]";
}

}  // namespace

std::string progress_line(const ProgressState& state, std::size_t width) {
  std::vector<Field> fields = fields_of(state, "ppl");
  const std::string count = count_of(state);
  std::string line = joined(count, fields, kGap);
  while (line.size() > width && !fields.empty()) {
    drop_least(fields);
    line = joined(count, fields, kGap);
  }
  if (line.size() > width) return line.substr(0, width);
  const std::size_t space = width - line.size();
  if (state.total <= 0 || space < kNarrowestBar + 1) return line;
  return bar(state, std::min(space - 1, kWidestBar)) + " " + line;
}

std::string progress_text(const ProgressState& state) {
  const std::string count = count_of(state);
  return joined(state.total > 0 ? "step " + count : count, fields_of(state, "perplexity"), ", ");
}

void StepTime::note(std::int64_t step, Clock::time_point now) {
  if (last_ && step > step_) {
    const auto steps = static_cast<double>(step - step_);
    const double seconds = std::chrono::duration<double>(now - *last_).count() / steps;
    // The same as noting each of the steps with their mean.
    const double keep = std::pow(1 - kNewStepWeight, steps);
    weighted_sum_ = keep * weighted_sum_ + (1 - keep) * seconds;
    weights_ = keep * weights_ + (1 - keep);
  }
  if (last_ && step == step_) return;
  last_ = now;
  step_ = step;
}

void StepTime::pass_over(Clock::time_point now) {
  if (last_) last_ = now;
}

std::optional<double> StepTime::seconds() const {
  if (weights_ == 0) return std::nullopt;
  return weighted_sum_ / weights_;
}

std::optional<std::chrono::milliseconds> StepTime::left(std::int64_t total) const {
  const auto step_seconds = seconds();
  if (!step_seconds || total <= 0) return std::nullopt;
  const double left = *step_seconds * static_cast<double>(std::max<std::int64_t>(total - step_, 0));
  if (left > kLongestShown) return std::nullopt;
  return std::chrono::milliseconds(std::llround(left * 1000));
}

}  // namespace zeroshard
