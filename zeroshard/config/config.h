// A whole run's configuration: the option structs of the parts, composed. No part reads JSON.
#pragma once

#include <optional>

#include "zeroshard/checkpoint/options.h"
#include "zeroshard/comm/options.h"
#include "zeroshard/engine/options.h"
#include "zeroshard/monitor/options.h"
#include "zeroshard/optim/options.h"
#include "zeroshard/precision/options.h"
#include "zeroshard/schedule/options.h"
#include "zeroshard/tier/options.h"
#include "zeroshard/trainer/options.h"

namespace zeroshard {

struct Config {
  BatchOptions batch;
  std::optional<OptimizerOptions> optimizer;  // unset: the caller brings or chooses one
  std::optional<ScheduleOptions> scheduler;   // unset: constant learning rate
  PrecisionOptions precision;
  ZeroOptions zero;
  OffloadOptions offload;
  CommOptions comm;
  MonitorOptions monitor;
  CheckpointOptions checkpoint;
};

}  // namespace zeroshard
