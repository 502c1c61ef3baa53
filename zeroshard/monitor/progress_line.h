// How a run is getting on, in one line for people.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace zeroshard {

// What is unset is not shown.
struct ProgressState {
  std::int64_t step = 0;   // done
  std::int64_t total = 0;  // 0: unknown, so no bar and no time left
  std::optional<double> loss;
  std::optional<double> perplexity;
  std::optional<double> learning_rate;
  std::int64_t skipped = 0;  // steps; 0 is not shown
  std::optional<double> tokens_per_second;
  std::optional<std::int64_t> memory_bytes;
  std::optional<std::chrono::milliseconds> left;
};

// "[=====>    ] 120/1000  loss 3.1416  ppl 23.14  lr 0.001  12.3 K tokens/s  3.20 GiB  2 min 05 s
// left", in at most `width` columns. Where it is narrow the bar shrinks first, then memory, speed,
// learning rate, perplexity, time left and loss go, in this order.
std::string progress_line(const ProgressState& state, std::size_t width);

// The same without a bar, for logs: "step 120/1000, loss 3.1416, perplexity 23.14, ..."
std::string progress_text(const ProgressState& state);

// The time of a step, smoothed: recent steps count more, and the first alone is believed at once.
class StepTime {
 public:
  using Clock = std::chrono::steady_clock;

  // Steps up to `step` were done at `now`. The first call only starts the clock.
  void note(std::int64_t step, Clock::time_point now);

  // What took until `now` since the last note was no step: an evaluation, say.
  void pass_over(Clock::time_point now);

  // Nothing before the second call.
  std::optional<double> seconds() const;
  std::optional<std::chrono::milliseconds> left(std::int64_t total) const;

 private:
  std::optional<Clock::time_point> last_;
  std::int64_t step_ = 0;
  double weighted_sum_ = 0;
  double weights_ = 0;
};

}  // namespace zeroshard
