#include "zeroshard/schedule/lr_schedule.h"

#include <variant>

#include "zeroshard/base/check.h"
#include "zeroshard/schedule/one_cycle.h"
#include "zeroshard/schedule/ramps.h"

namespace zeroshard {
namespace {

// Gives every schedule the same shape, so that the visit below needs no cases.
struct ValueAt {
  std::int64_t iteration;
  double optimizer_lr;

  ScheduleValue operator()(const LrRangeTestOptions& options) const {
    return {.lr = lr_at(options, iteration), .betas = {}};
  }
  ScheduleValue operator()(const OneCycleOptions& options) const {
    return {.lr = lr_at(options, iteration), .betas = betas_at(options, iteration)};
  }
  ScheduleValue operator()(const WarmupLrOptions& options) const {
    return {.lr = lr_at(options, iteration, optimizer_lr), .betas = {}};
  }
  ScheduleValue operator()(const WarmupDecayLrOptions& options) const {
    return {.lr = lr_at(options, iteration), .betas = {}};
  }
  ScheduleValue operator()(const WarmupCosineLrOptions& options) const {
    return {.lr = lr_at(options, iteration, optimizer_lr), .betas = {}};
  }
};

}  // namespace

ScheduleValue schedule_at(const ScheduleOptions& options, std::int64_t iteration,
                          double optimizer_lr) {
  ZS_CHECK_GE(iteration, kFirstIteration, "schedules start at iteration -1");
  return std::visit(ValueAt{iteration, optimizer_lr}, options);
}

double lr_for_update(const ScheduleOptions& options, std::int64_t update, double optimizer_lr) {
  ZS_CHECK_GE(update, 1, "updates are counted from 1");
  return schedule_at(options, iteration_of_update(update), optimizer_lr).lr;
}

}  // namespace zeroshard
