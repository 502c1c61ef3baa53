#include "zeroshard/setup/engine_options.h"

#include <algorithm>

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/setup/fit_memory.h"

namespace zeroshard {
namespace {

// A budget asks for the host's memory by itself, and pin_memory is then about that.
OffloadOptions offload_of(const Config& config) {
  OffloadOptions offload = config.offload;
  if (config.zero.device_budget_bytes) offload.optimizer = Tier::host;
  return offload;
}

FittedMemory fit_options(const EngineOptions& options, const ModelLayout& model,
                         std::int64_t held_on_host, Communicator& comm) {
  int moments = 0;
  for (const OptimizerOptions& group : options.parameter_groups) {
    moments = std::max(moments, moments_per_parameter(group));
  }
  return fit_memory(model,
                    {.zero = options.zero,
                     .offload = options.offload,
                     .precision = options.precision,
                     .moments_per_parameter = options.update ? 0 : moments,
                     .micro_steps = options.accumulation_steps,
                     .accelerator = options.device != kCpu},
                    held_on_host, comm);
}

}  // namespace

EngineOptions engine_options(const Config& config, Device device, std::int64_t accumulation) {
  if (accumulation < 1) {
    throw ConfigError({.what = "the micro-steps per step are out of range",
                       .value = fmt::format("{}", accumulation),
                       .remedy = "give at least 1"});
  }
  return {.zero = config.zero,
          .offload = offload_of(config),
          .fit_memory = fit_options,
          .precision = config.precision,
          .accumulation_steps = accumulation,
          .parameter_groups = {config.optimizer.value_or(AdamOptions{})},
          .device = device};
}

}  // namespace zeroshard
