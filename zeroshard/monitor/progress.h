// Shows how a run is getting on. On a terminal one line is rewritten in place, at most ten times a
// second, and is gone at the end; elsewhere a plain line comes every so many steps.
//
//   Progress progress({.total_steps = 1000});
//   progress.update({.step = 1, .loss = 3.2, .tokens_per_step = 8192});
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "zeroshard/monitor/progress_line.h"

namespace zeroshard {

struct ProgressOptions {
  std::int64_t total_steps = 0;  // 0: unknown
  std::int64_t first_step = 0;   // done before, by the run that this one resumes
  std::int64_t steps_per_line = 10;
  int descriptor = 2;  // stderr: stdout is for results
  // The width of a terminal that shows the line at a pipe's other end: asked before each drawing,
  // since windows change. Unset: the descriptor's own terminal, if it is one.
  std::function<std::size_t()> columns = {};
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

struct ProgressUpdate {
  std::int64_t step = 0;  // done
  std::optional<double> loss;
  std::optional<double> perplexity;
  std::optional<double> learning_rate;
  std::int64_t skipped = 0;  // steps so far that changed nothing
  std::optional<double> tokens_per_step;
  std::optional<std::int64_t> memory_bytes;
};

// Rank 0 makes one. Output that fails (a closed pipe, a full disk) is no reason to end a run: it is
// dropped.
class Progress {
 public:
  explicit Progress(ProgressOptions options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const ProgressUpdate& update);

  // Takes the line off the terminal, before other output; the next update brings it back.
  void clear() noexcept;

  // What was done since the last update was no step: its time is none of theirs, in the speed and
  // in the time left.
  void pass_over() { step_time_.pass_over(options_.now()); }

  bool on_terminal() const noexcept { return on_terminal_; }

 private:
  ProgressState state_of(const ProgressUpdate& update) const;
  void redraw(const ProgressState& state, StepTime::Clock::time_point now);
  void print_line(const ProgressState& state);
  void write(std::string_view text) const noexcept;

  const ProgressOptions options_;
  const bool on_terminal_;
  StepTime step_time_;
  std::optional<StepTime::Clock::time_point> last_drawn_;
  std::int64_t last_printed_;
  bool visible_ = false;
};

}  // namespace zeroshard
