// What a run writes down about itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace zeroshard {

// TensorBoard event files, or one CSV file per series, in <output_path>/<job_name>.
struct SinkOptions {
  bool enabled = false;
  std::string output_path;
  std::string job_name = "DeepSpeedJobName";
};

struct MonitorOptions {
  SinkOptions tensorboard;
  SinkOptions csv;
  std::optional<std::int64_t> steps_per_print;  // unset: the command decides
  bool wall_clock_breakdown = false;
  bool memory_breakdown = false;
  std::optional<std::string> log_level;  // debug, info, warning, error, critical
};

}  // namespace zeroshard
