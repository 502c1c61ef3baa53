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

FootprintOptions footprint_options_of(const EngineOptions& options) {
  int moments = 0;
  for (const OptimizerOptions& group : options.parameter_groups) {
    moments = std::max(moments, moments_per_parameter(group));
  }
  return {.zero = options.zero,
          .offload = options.offload,
          .precision = options.precision,
          .moments_per_parameter = options.update ? 0 : moments,
          .micro_steps = options.accumulation_steps,
          .accelerator = options.device != kCpu,
          .sums = options.sums};
}

FittedMemory fit_options(const EngineOptions& options, const ModelLayout& model,
                         std::int64_t held_on_host, Communicator& comm) {
  return fit_memory(model, footprint_options_of(options), held_on_host, comm);
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

Footprint planned_footprint(const Core& core) {
  FootprintOptions options = footprint_options_of(core.options());
  options.first_host_unit = core.tiers().first_host_unit;
  options.undo_limit_bytes = core.tiers().undo_bytes;
  return footprint(core.layout(), options);
}

}  // namespace zeroshard
