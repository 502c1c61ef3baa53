// The five learning-rate schedules of ds_config.json and their knobs. Names follow the config keys.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

namespace zeroshard {

enum class WarmupShape { log, linear };

struct LrRangeTestOptions {
  double min_lr = 1e-3;           // lr_range_test_min_lr
  std::int64_t step_size = 2000;  // lr_range_test_step_size
  double step_rate = 1.0;         // lr_range_test_step_rate
  bool staircase = false;         // lr_range_test_staircase
};

struct OneCycleOptions {
  double min_lr = 0.0;  // cycle_min_lr, required in the config
  double max_lr = 0.0;  // cycle_max_lr, required in the config
  double decay_lr_rate = 0.0;
  std::int64_t first_step_size = 2000;           // cycle_first_step_size
  std::optional<std::int64_t> second_step_size;  // cycle_second_step_size; first_step_size if unset
  std::int64_t decay_step_size = 0;              // 0: no decay
  std::int64_t first_stair_count = 0;            // cycle_first_stair_count; 0: continuous
  std::optional<std::int64_t> second_stair_count;  // cycle_second_stair_count; the first's if unset
  bool cycle_momentum = true;
  double min_momentum = 0.8;         // cycle_min_mom
  double max_momentum = 0.9;         // cycle_max_mom
  double decay_momentum_rate = 0.0;  // decay_mom_rate
};

struct WarmupLrOptions {
  double min_lr = 0.0;                   // warmup_min_lr
  std::optional<double> max_lr;          // warmup_max_lr; the optimizer's lr if unset
  std::int64_t num_steps = 1000;         // warmup_num_steps
  WarmupShape shape = WarmupShape::log;  // warmup_type
};

struct WarmupDecayLrOptions {
  std::int64_t total_num_steps = 0;  // required in the config
  double min_lr = 0.0;
  double max_lr = 1e-3;  // not the optimizer's lr: DeepSpeed's own default
  std::int64_t num_steps = 1000;
  WarmupShape shape = WarmupShape::log;
};

struct WarmupCosineLrOptions {
  std::int64_t total_num_steps = 0;  // required in the config
  double min_ratio = 0.0;            // warmup_min_ratio
  std::int64_t num_steps = 1000;
  double cos_min_ratio = 1e-4;
  WarmupShape shape = WarmupShape::log;
};

using ScheduleOptions = std::variant<LrRangeTestOptions, OneCycleOptions, WarmupLrOptions,
                                     WarmupDecayLrOptions, WarmupCosineLrOptions>;

}  // namespace zeroshard
