// What of a configuration the engine takes.
//
//   const Config config = config::load_config("ds_config.json", {.world_size = ranks});
//   const auto batch = config::solve_batch(config.batch, ranks).sizes;
//   Engine engine(model, engine_options(config, kCpu, batch->accumulation), comm);
//
// Not in it: the batch sizes, which are the caller's, and the schedule, which the caller writes
// into engine.core().parameter_groups() before each step. A configuration that settle_config() has
// been given (settled_config.h) also fits the model and the machine.
#pragma once

#include <cstdint>

#include "zeroshard/config/config.h"
#include "zeroshard/device/device.h"
#include "zeroshard/engine/core.h"
#include "zeroshard/planner/footprint.h"

namespace zeroshard {

// Adam with its defaults where the configuration names no optimizer. What it asks for and this
// version does not do is refused where it changes results (ConfigError), else warned about.
EngineOptions engine_options(const Config& config, Device device = kCpu,
                             std::int64_t accumulation = 1);

// What an engine was planned to hold, by what its units and its host have let it become.
Footprint planned_footprint(const Core& core);

}  // namespace zeroshard
