#include "zeroshard/setup/engine_options.h"

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/config/not_yet.h"

namespace zeroshard {

EngineOptions engine_options(const Config& config, Device device, std::int64_t accumulation) {
  if (accumulation < 1) {
    throw ConfigError({.what = "the micro-steps per step are out of range",
                       .value = fmt::format("{}", accumulation),
                       .remedy = "give at least 1"});
  }
  config::refuse_what_is_not_yet(config);
  for (const std::string& line : config::asked_but_not_yet(config)) log_warning("{}", line);
  return {.zero = config.zero,
          .precision = config.precision,
          .accumulation_steps = accumulation,
          .parameter_groups = {config.optimizer.value_or(AdamOptions{})},
          .device = device};
}

}  // namespace zeroshard
