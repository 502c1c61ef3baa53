// The table of `zeroshard plan`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zeroshard/planner/footprint.h"

namespace zeroshard::cli {

struct PlannedStage {
  int stage = 0;
  Footprint footprint;
  std::int64_t sent_bytes = 0;      // per rank and step
  std::size_t units_on_device = 0;  // that keep their optimizer states there
  std::string does_not_fit = {};    // why, where a budget is too small for it
};

struct PlanReport {
  std::int64_t parameters = 0;
  int world_size = 1;
  int units = 1;
  std::string precision;                 // "bf16 with fp32 master"
  std::string optimizer;                 // "2 moments (Adam)"
  std::vector<std::string> assumptions;  // what nobody said and was chosen
  std::optional<int> chosen_stage;       // the config's
  std::vector<PlannedStage> stages;
};

std::string plan_text(const PlanReport& report);
std::string plan_json(const PlanReport& report);

}  // namespace zeroshard::cli
