#include "zeroshard/trainer/engine_options.h"

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"

namespace zeroshard {
namespace {

void refuse_what_changes_results(const Config& config) {
  if (!config.zero.delayed_update) return;
  throw ConfigError({.what = "zeroshard.delayed_update is not available yet",
                     .value = "true",
                     .remedy = "leave it out: every update is then done in its own step"});
}

// All of these move memory or save time, and change no number.
void warn_of_what_is_not_done(const Config& config) {
  const auto warn = [](std::string_view key) {
    log_warning("{} has no effect yet: all states stay on the device, with the same results", key);
  };
  if (config.offload.optimizer != Tier::device) warn("zero_optimization.offload_optimizer");
  if (config.offload.parameters != Tier::device) warn("zero_optimization.offload_param");
  if (config.zero.device_budget_bytes) warn("zeroshard.device_budget");
  if (config.zero.host_budget_bytes) warn("zeroshard.host_budget");
  if (config.zero.speculative_update.value_or(false)) warn("zeroshard.speculative_update");
}

}  // namespace

EngineOptions engine_options(const Config& config, Device device, std::int64_t accumulation) {
  if (accumulation < 1) {
    throw ConfigError({.what = "the micro-steps per step are out of range",
                       .value = fmt::format("{}", accumulation),
                       .remedy = "give at least 1"});
  }
  refuse_what_changes_results(config);
  warn_of_what_is_not_done(config);
  return {.zero = config.zero,
          .precision = config.precision,
          .accumulation_steps = accumulation,
          .groups = {config.optimizer.value_or(AdamOptions{})},
          .device = device};
}

}  // namespace zeroshard
