#include "zeroshard/schedule/ramps.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "zeroshard/base/check.h"

namespace zeroshard {
namespace {

// ln(1) would be a division by zero, so DeepSpeed warms up for two steps at least, in both shapes.
std::int64_t warmup_steps(std::int64_t num_steps) {
  ZS_CHECK_GT(num_steps, 0, "warmup_num_steps");
  return std::max<std::int64_t>(2, num_steps);
}

// From 0 at iteration 0 towards 1 at iteration `steps`; log reaches 1 one iteration before.
double warmup_part(WarmupShape shape, std::int64_t iteration, std::int64_t steps) {
  const auto done = static_cast<double>(iteration);
  const auto all = static_cast<double>(steps);
  return shape == WarmupShape::log ? std::log(done + 1.0) / std::log(all) : done / all;
}

double decay_part(std::int64_t iteration, std::int64_t steps, std::int64_t total) {
  const auto left = static_cast<double>(total - iteration);
  const auto all = static_cast<double>(std::max<std::int64_t>(1, total - steps));
  return std::max(0.0, left / all);
}

double cosine_ratio(const WarmupCosineLrOptions& options, std::int64_t iteration,
                    std::int64_t steps) {
  const auto done = static_cast<double>(iteration - steps + 1);
  const auto all = static_cast<double>(std::max<std::int64_t>(1, options.total_num_steps - steps));
  const double progress = std::min(1.0, done / all);
  const double wave = (1.0 + std::cos(std::numbers::pi * progress)) / 2.0;
  return std::max(0.0, options.cos_min_ratio + (1.0 - options.cos_min_ratio) * wave);
}

}  // namespace

double lr_at(const WarmupLrOptions& options, std::int64_t iteration, double optimizer_lr) {
  const std::int64_t steps = warmup_steps(options.num_steps);
  if (iteration < 0) return options.min_lr;
  const double max_lr = options.max_lr.value_or(optimizer_lr);
  if (iteration >= steps) return max_lr;
  const double part = warmup_part(options.shape, iteration, steps);
  return options.min_lr + (max_lr - options.min_lr) * part;
}

double lr_at(const WarmupDecayLrOptions& options, std::int64_t iteration) {
  const std::int64_t steps = warmup_steps(options.num_steps);
  if (iteration < 0) return options.min_lr;
  const double part = iteration < steps ? warmup_part(options.shape, iteration, steps)
                                        : decay_part(iteration, steps, options.total_num_steps);
  return options.min_lr + (options.max_lr - options.min_lr) * part;
}

double lr_at(const WarmupCosineLrOptions& options, std::int64_t iteration, double optimizer_lr) {
  const std::int64_t steps = warmup_steps(options.num_steps);
  if (iteration < 0) return 0.0;
  if (iteration >= steps) return optimizer_lr * cosine_ratio(options, iteration, steps);
  const double part = warmup_part(options.shape, iteration, steps);
  return optimizer_lr * (options.min_ratio + (1.0 - options.min_ratio) * part);
}

double lr_at(const LrRangeTestOptions& options, std::int64_t iteration) {
  ZS_CHECK_GT(options.step_size, 0, "lr_range_test_step_size");
  const std::int64_t updates = iteration + 1;
  // Integer division is the floor here: updates is never negative.
  const double steps = options.staircase ? static_cast<double>(updates / options.step_size)
                                         : static_cast<double>(updates) / options.step_size;
  return options.min_lr * (1.0 + options.step_rate * steps);
}

}  // namespace zeroshard
