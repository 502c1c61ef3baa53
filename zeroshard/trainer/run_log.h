// What a run tells the world, step by step: the progress line, the log, TensorBoard and CSV files.
// Rank 0 makes one.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zeroshard/checkpoint/saver.h"
#include "zeroshard/engine/core.h"
#include "zeroshard/monitor/json_lines.h"
#include "zeroshard/monitor/monitor.h"
#include "zeroshard/monitor/progress.h"
#include "zeroshard/monitor/wall_clock.h"
#include "zeroshard/trainer/run_settings.h"

namespace zeroshard {

struct StepRecord {
  std::int64_t step = 0;  // done, this one included
  double loss = 0.0;      // mean over ranks and micro-steps
  double lr = 0.0;
  StepResult result = {};
  std::int64_t samples = 0;  // trained on so far
  std::int64_t tokens = 0;   // of this step
};

class RunLog {
 public:
  // Opens all files, so that a wrong path is an error before the first step.
  // `first_step`: steps done before, by the run that this one resumes.
  RunLog(const TrainOptions& options, const RunSettings& run, Core& core, std::int64_t first_step);

  void step(const StepRecord& record);
  void evaluation(std::int64_t step, std::int64_t samples, double loss);
  void saved(std::int64_t step, const SaveReport& report);
  // Beside the steps: what the run is, what it has taken of memory.
  void record(const JsonObject& what);
  // A page of all that was logged. Throws StorageError.
  void write_report(const std::string& path) const;
  // Before other output to the terminal.
  void clear() { progress_.clear(); }
  WallClock* clock() { return breakdown_ ? &*breakdown_ : nullptr; }

 private:
  // What the disk refuses is said once, and the run goes on.
  template <typename Write>
  void try_to_write(bool& has_warned, const Write& write);
  void write_line(const StepRecord& record, double seconds);
  void write_series(const StepRecord& record);
  void write_breakdown(const StepRecord& record);
  void write_to_log(const JsonObject& what);
  JsonObject take_times();

  Core& core_;
  const bool scales_loss_;
  const bool of_words_;  // then a loss has a perplexity
  Progress progress_;
  Monitor monitor_;
  std::optional<JsonLines> lines_;
  std::optional<WallClock> breakdown_;  // of one step
  WallClock shown_;                     // since it was last said
  const bool shows_breakdown_;
  const bool reports_;
  std::vector<std::string> reported_;  // the log's lines, for a page
  std::int64_t steps_per_print_;
  std::int64_t skipped_ = 0;
  bool has_warned_of_log_ = false;
  bool has_warned_of_series_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  TrafficLedger::Entries traffic_ = {};
};

}  // namespace zeroshard
