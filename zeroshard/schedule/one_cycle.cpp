#include "zeroshard/schedule/one_cycle.h"

#include <cmath>

#include "zeroshard/base/check.h"

namespace zeroshard {
namespace {

constexpr double kCycleBeta2 = 0.99;

std::int64_t second_step_size(const OneCycleOptions& options) {
  return options.second_step_size.value_or(options.first_step_size);
}

std::int64_t cycle_size(const OneCycleOptions& options) {
  return options.first_step_size + second_step_size(options);
}

void check_cycle(const OneCycleOptions& options) {
  ZS_CHECK_GT(options.first_step_size, 0, "cycle_first_step_size");
  ZS_CHECK_GE(second_step_size(options), 0, "cycle_second_step_size");
  ZS_CHECK_GE(options.decay_step_size, 0, "decay_step_size");
}

// How far up a half cycle is, from 0 to 1; `stairs` above zero round it down to a stair. The stair
// is found from whole numbers: rounding down `position / size` would miss stairs by one bit.
double height(std::int64_t position, std::int64_t size, std::int64_t stairs) {
  const auto up = static_cast<double>(position);
  const auto all = static_cast<double>(size);
  if (stairs <= 0) return up / all;
  const auto count = static_cast<double>(stairs);
  return std::floor(up * count / all) / count;
}

// 0 at the start of the cycle, 1 at its top, 0 again at its end. The end counts as the start of a
// next cycle, as in DeepSpeed, so an empty second half drops straight from the top's neighbour to
// 0.
double cycle_height(const OneCycleOptions& options, std::int64_t iteration) {
  const std::int64_t size = cycle_size(options);
  const std::int64_t offset = (iteration + 1) % size;
  const std::int64_t first_stairs = options.first_stair_count;
  if (offset <= options.first_step_size) {
    return height(offset, options.first_step_size, first_stairs);
  }
  const std::int64_t second_stairs = options.second_stair_count.value_or(first_stairs);
  return height(size - offset, second_step_size(options), second_stairs);
}

bool in_cycle(const OneCycleOptions& options, std::int64_t iteration) {
  return iteration < cycle_size(options);
}

// 1 plus `rate` per decay_step_size iterations after the cycle; 1 where decay is off.
double decay_factor(const OneCycleOptions& options, double rate, std::int64_t iteration) {
  if (options.decay_step_size == 0) return 1.0;
  const auto since_cycle = static_cast<double>(iteration - cycle_size(options) + 1);
  return 1.0 + rate * since_cycle / static_cast<double>(options.decay_step_size);
}

double beta1_at(const OneCycleOptions& options, std::int64_t iteration) {
  // Before the first step DeepSpeed writes min, not the max that the formula gives.
  if (iteration == kFirstIteration) return options.min_momentum;
  if (!in_cycle(options, iteration)) {
    return options.max_momentum * decay_factor(options, options.decay_momentum_rate, iteration);
  }
  const double range = options.max_momentum - options.min_momentum;
  return options.max_momentum - range * cycle_height(options, iteration);
}

}  // namespace

double lr_at(const OneCycleOptions& options, std::int64_t iteration) {
  check_cycle(options);
  if (!in_cycle(options, iteration)) {
    return options.min_lr / decay_factor(options, options.decay_lr_rate, iteration);
  }
  return options.min_lr + (options.max_lr - options.min_lr) * cycle_height(options, iteration);
}

std::optional<ScheduledBetas> betas_at(const OneCycleOptions& options, std::int64_t iteration) {
  check_cycle(options);
  if (!options.cycle_momentum) return std::nullopt;
  return ScheduledBetas{.beta1 = beta1_at(options, iteration), .beta2 = kCycleBeta2};
}

}  // namespace zeroshard
