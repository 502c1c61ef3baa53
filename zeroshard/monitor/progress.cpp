#include "zeroshard/monitor/progress.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include <unistd.h>

#include "zeroshard/monitor/terminal.h"

namespace zeroshard {
namespace {

constexpr std::chrono::milliseconds kLeastTimeBetweenDraws{100};
constexpr std::size_t kDefaultColumns = 79;
constexpr std::string_view kEraseToEnd = "\x1b[K";

}  // namespace

Progress::Progress(ProgressOptions options)
    : options_(std::move(options)),
      on_terminal_(options_.columns != nullptr || ::isatty(options_.descriptor) == 1),
      last_printed_(options_.first_step) {
  step_time_.note(options_.first_step, options_.now());
}

Progress::~Progress() { clear(); }

ProgressState Progress::state_of(const ProgressUpdate& update) const {
  ProgressState state{.step = update.step,
                      .total = options_.total_steps,
                      .loss = update.loss,
                      .perplexity = update.perplexity,
                      .learning_rate = update.learning_rate,
                      .skipped = update.skipped,
                      .memory_bytes = update.memory_bytes,
                      .left = step_time_.left(options_.total_steps)};
  const auto seconds = step_time_.seconds();
  if (update.tokens_per_step && seconds && *seconds > 0) {
    state.tokens_per_second = *update.tokens_per_step / *seconds;
  }
  return state;
}

void Progress::update(const ProgressUpdate& update) {
  const auto now = options_.now();
  step_time_.note(update.step, now);
  const ProgressState state = state_of(update);
  if (on_terminal_) {
    redraw(state, now);
  } else {
    print_line(state);
  }
}

void Progress::redraw(const ProgressState& state, StepTime::Clock::time_point now) {
  const bool last = state.total > 0 && state.step >= state.total;
  if (last_drawn_ && now - *last_drawn_ < kLeastTimeBetweenDraws && !last) return;
  const std::size_t columns = options_.columns
                                  ? options_.columns()
                                  : usable_columns(options_.descriptor).value_or(kDefaultColumns);
  std::string text = "\r" + progress_line(state, columns);
  text += kEraseToEnd;
  write(text);
  last_drawn_ = now;
  visible_ = true;
}

// The first step of a run (a sign of life), each steps_per_line-th, and the last.
void Progress::print_line(const ProgressState& state) {
  const std::int64_t every = std::max<std::int64_t>(options_.steps_per_line, 1);
  const bool first = last_printed_ == options_.first_step && state.step > last_printed_;
  const bool crossed = state.step / every > last_printed_ / every;
  const bool last = state.total > 0 && state.step >= state.total && state.step > last_printed_;
  if (!first && !crossed && !last) return;
  last_printed_ = state.step;
  write(progress_text(state) + "\n");
}

void Progress::clear() noexcept {
  if (!visible_) return;
  write("\r\x1b[K");
  visible_ = false;
}

void Progress::write(std::string_view text) const noexcept {
  while (!text.empty()) {
    const auto written = ::write(options_.descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace zeroshard
