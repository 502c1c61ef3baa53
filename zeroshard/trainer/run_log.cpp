#include "zeroshard/trainer/run_log.h"

#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/monitor/report.h"
#include "zeroshard/monitor/terminal.h"
#include "zeroshard/setup/rank_memory.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kStepsPerLine = 10;

// What a loss means in words: from how many tokens, equally likely, the model seems to choose.
std::optional<double> perplexity_of(double loss, bool of_words) {
  if (!of_words) return std::nullopt;
  return std::exp(loss);
}

JsonObject memory_on(const MemoryLedger& ledger, Tier tier) {
  JsonObject bytes;
  for (const Category category : kCategories) {
    bytes.add(name_of(category), ledger.bytes(category, tier));
  }
  return bytes;
}

// What was sent since, by operation.
JsonObject sent_since(const TrafficLedger::Entries& before, const TrafficLedger::Entries& now) {
  std::array<std::int64_t, 5> bytes{};
  for (const auto& [key, entry] : now) {
    const auto found = before.find(key);
    const std::int64_t had = found == before.end() ? 0 : found->second.bytes;
    bytes.at(static_cast<std::size_t>(key.first)) += entry.bytes - had;
  }
  JsonObject sent;
  for (const Operation operation : {Operation::all_gather, Operation::reduce_scatter,
                                    Operation::all_reduce, Operation::broadcast}) {
    sent.add(name_of(operation), bytes.at(static_cast<std::size_t>(operation)));
  }
  return sent;
}

double seconds_since_epoch() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace

RunLog::RunLog(const TrainOptions& options, const RunSettings& run, Core& core,
               std::int64_t first_step)
    : core_(core),
      scales_loss_(run.config.precision.fp16.enabled),
      of_words_(std::holds_alternative<GptOptions>(run.model)),
      progress_({.total_steps = run.steps,
                 .first_step = first_step,
                 .steps_per_line = run.config.monitor.steps_per_print.value_or(kStepsPerLine),
                 .columns = columns_behind_pipe()}),
      monitor_(run.config.monitor),
      shows_breakdown_(run.config.monitor.wall_clock_breakdown),
      reports_(!options.report.empty()),
      steps_per_print_(run.config.monitor.steps_per_print.value_or(kStepsPerLine)) {
  if (!options.log.empty()) lines_.emplace(options.log);
  if (shows_breakdown_ || reports_) breakdown_.emplace();
}

template <typename Write>
void RunLog::try_to_write(bool& has_warned, const Write& write) {
  try {
    write();
  } catch (const StorageError& error) {
    if (std::exchange(has_warned, true)) return;
    progress_.clear();
    log_warning("{}; training goes on, and what cannot be written is left out", error.what());
  }
}

void RunLog::step(const StepRecord& record) {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - last_).count();
  last_ = now;
  if (!record.result.applied) ++skipped_;
  try_to_write(has_warned_of_log_, [&] { write_line(record, seconds); });
  try_to_write(has_warned_of_series_, [&] { write_series(record); });
  progress_.update({.step = record.step,
                    .loss = record.loss,
                    .perplexity = perplexity_of(record.loss, of_words_),
                    .learning_rate = record.lr,
                    .skipped = skipped_,
                    .tokens_per_step = static_cast<double>(record.tokens),
                    .memory_bytes = core_.memory().total(Tier::device)});
  if (!shows_breakdown_) return;
  shown_.end_step();
  if (steps_per_print_ > 0 && record.step % steps_per_print_ == 0) write_breakdown(record);
}

void RunLog::write_line(const StepRecord& record, double seconds) {
  const JsonObject times = take_times();
  if (!lines_ && !reports_) return;
  const TrafficLedger::Entries before = std::move(traffic_);
  traffic_ = core_.traffic().entries();
  JsonObject line = JsonObject()
                        .add("step", record.step)
                        .add("loss", record.loss)
                        .add("grad_norm", record.result.gradient_norm)
                        .add("lr", record.lr)
                        .add("loss_scale", record.result.loss_scale)
                        .add("skipped", !record.result.applied)
                        .add("tokens_per_s", static_cast<double>(record.tokens) / seconds)
                        .add("step_ms", seconds * 1e3)
                        .add("samples", record.samples)
                        .add("time", seconds_since_epoch())
                        .add("device_bytes", memory_on(core_.memory(), Tier::device))
                        .add("host_bytes", memory_on(core_.memory(), Tier::host))
                        .add("sent_bytes", sent_since(before, traffic_))
                        .add("peak_rss_bytes", peak_resident_bytes());
  if (breakdown_) line.add("times_ms", times);
  write_to_log(line);
}

void RunLog::write_to_log(const JsonObject& what) {
  if (reports_) reported_.push_back(what.text());
  if (lines_) lines_->write(what);
}

void RunLog::record(const JsonObject& what) {
  try_to_write(has_warned_of_log_, [&] { write_to_log(what); });
}

void RunLog::write_report(const std::string& path) const {
  std::string text;
  for (const std::string& line : reported_) text += line + "\n";
  replace_file(path, report_page(text));
}

// Where the time of this step went, which also counts for what is said of several.
JsonObject RunLog::take_times() {
  JsonObject times;
  if (!breakdown_) return times;
  breakdown_->end_step();
  for (const WallClockTime& time : breakdown_->take().times) {
    times.add(time.name, time.ms_per_step);
    shown_.add(time.name, std::chrono::duration_cast<WallClock::Clock::duration>(
                              std::chrono::duration<double, std::milli>(time.ms_per_step)));
  }
  return times;
}

void RunLog::write_series(const StepRecord& record) {
  if (!monitor_.enabled()) return;
  monitor_.write(record.samples,
                 {{tags::kTrainLoss, record.loss}, {tags::kLearningRate, record.lr}});
  if (scales_loss_) {
    monitor_.write(record.samples, {{tags::kLossScale, record.result.loss_scale}});
  }
}

// Where the time went since it was last said.
void RunLog::write_breakdown(const StepRecord& record) {
  const WallClockReading reading = shown_.take();
  progress_.clear();
  log_info("step {}: {}", record.step, wall_clock_line(reading));
  if (!monitor_.enabled()) return;
  try_to_write(has_warned_of_series_, [&] {
    for (const WallClockTime& time : reading.times) {
      const std::string tag = "Train/Samples/elapsed_time_ms_" + time.name;
      monitor_.write(record.samples, {{tag, time.ms_per_step}});
    }
  });
}

void RunLog::saved(std::int64_t step, const SaveReport& report) {
  const auto ms = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double, std::milli>(time).count();
  };
  try_to_write(has_warned_of_log_, [&] {
    if (!lines_) return;
    lines_->write(JsonObject()
                      .add("step", step)
                      .add("saved", report.tag)
                      .add("saved_bytes", static_cast<std::int64_t>(report.bytes))
                      .add("save_ms", ms(report.took))
                      .add("pause_ms", ms(report.paused)));
  });
}

void RunLog::evaluation(std::int64_t step, std::int64_t samples, double loss) {
  progress_.clear();
  const auto perplexity = perplexity_of(loss, of_words_);
  log_info("step {}: evaluation loss {:.4f}{}", step, loss,
           perplexity ? fmt::format(", perplexity {:.4g}", *perplexity) : "");
  try_to_write(has_warned_of_log_,
               [&] { write_to_log(JsonObject().add("step", step).add("eval_loss", loss)); });
  try_to_write(has_warned_of_series_, [&] {
    if (monitor_.enabled()) monitor_.write(samples, {{"Eval/loss", loss}});
  });
  last_ = std::chrono::steady_clock::now();  // it is no step's time
  progress_.pass_over();
}

}  // namespace zeroshard
