// A configuration as a run carries it out: what the file leaves open is chosen for the model and
// the machine. The command line's plan, its training and Python's engine all get theirs here.
//
//   const config::ReadResult read = config::read_config_file("ds_config.json", {.world_size = 8});
//   const SettledConfig settled = settle_config(read, {.communication = {.parameters =
//   124'000'000}}); Engine engine(model, engine_options(settled.config, device, accumulation),
//   comm);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "zeroshard/config/read.h"
#include "zeroshard/setup/choices.h"

namespace zeroshard {

// What a configuration is settled for.
struct Surroundings {
  CommunicationFacts communication = {};
  // Chooses a precision where the file names none. Unset: it is fp32 then, as with DeepSpeed.
  std::optional<bool> on_accelerator = std::nullopt;
  std::optional<int> stage = std::nullopt;  // in place of the file's
};

struct SettledConfig {
  Config config;
  // What was chosen, for those who say so.
  std::optional<std::string> chosen_precision = std::nullopt;
  std::vector<std::string> chosen_communication = {};
};

SettledConfig settle_config(const config::ReadResult& read, const Surroundings& surroundings);

}  // namespace zeroshard
