// OneCycle: the learning rate goes up and down once and then decays, while beta1 goes the other
// way.
#pragma once

#include <cstdint>
#include <optional>

#include "zeroshard/schedule/lr_schedule.h"
#include "zeroshard/schedule/options.h"

namespace zeroshard {

double lr_at(const OneCycleOptions& options, std::int64_t iteration);

// Nothing without cycle_momentum. beta2 is always 0.99, whatever the optimizer says. With a
// decay_momentum_rate above zero beta1 grows past 1 in time: DeepSpeed's behaviour, which config
// warns about.
std::optional<ScheduledBetas> betas_at(const OneCycleOptions& options, std::int64_t iteration);

}  // namespace zeroshard
