// The learning rate of every update as a pure function of the options and a number, so that a
// schedule has no state to lose: a checkpoint holds the iteration, and nothing else is needed.
//
// Iterations are DeepSpeed's `last_batch_iteration`. It is -1 when training starts and goes up by
// one after every update, so update k (1, 2, ...) runs with the values of iteration k - 2.
#pragma once

#include <cstdint>
#include <optional>

#include "zeroshard/schedule/options.h"

namespace zeroshard {

constexpr std::int64_t kFirstIteration = -1;

// What Adam-like optimizers use for beta1 and beta2 instead of their own.
struct ScheduledBetas {
  double beta1 = 0.0;
  double beta2 = 0.0;

  bool operator==(const ScheduledBetas&) const = default;
};

struct ScheduleValue {
  double lr = 0.0;
  std::optional<ScheduledBetas> betas;  // only from OneCycle with cycle_momentum

  bool operator==(const ScheduleValue&) const = default;
};

constexpr std::int64_t iteration_of_update(std::int64_t update) { return update - 2; }

// `optimizer_lr` is the lr the parameter group was configured with; schedules that do not scale it
// ignore it.
ScheduleValue schedule_at(const ScheduleOptions& options, std::int64_t iteration,
                          double optimizer_lr);

// The lr of update 1, 2, ...
double lr_for_update(const ScheduleOptions& options, std::int64_t update, double optimizer_lr);

}  // namespace zeroshard
