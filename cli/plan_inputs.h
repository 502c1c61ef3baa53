// What `zeroshard plan` is asked, and what follows from it: the model, the configuration, the
// machine, and all that nobody said and is assumed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "zeroshard/config/read.h"
#include "zeroshard/planner/planned_model.h"
#include "zeroshard/setup/plan_run.h"

namespace zeroshard::cli {

struct PlanArguments {
  std::string model;
  std::string params;
  std::optional<int> units;
  std::optional<std::int64_t> sequence;
  std::optional<std::int64_t> micro_batch;
  std::int64_t lora_rank = 0;
  bool checkpoint = false;
  bool whole_masters = false;
  std::string config_file;
  std::optional<int> world_size;
  std::optional<int> ranks_per_node;
  std::optional<int> nics_per_node;
  std::string device;  // "cpu" or "cuda"; empty: what train would take here
  std::string device_memory;
  std::string host_memory;
  std::string bandwidth;
  bool json = false;
  std::string write_file;
  std::string svg_file;
  std::string html_file;
  std::vector<std::string> compare;
};

struct PlanInputs {
  std::unique_ptr<PlannedModel> model;
  config::ParsedConfig parsed;
  config::ReadResult read;
  PlanFacts facts;
  MemoryLimits limits;       // of a rank
  std::string device_name;   // "H100", "this CPU"; empty where it is not known
  std::string rates_source;  // what of the rates is measured
  std::vector<std::string> assumptions;
  bool has_config = false;
  bool whole_masters = false;  // in place of what the configuration says
};

// Prints the configuration's problems on stderr. Throws ConfigError.
PlanInputs read_plan_inputs(const PlanArguments& arguments);
// The same for another configuration file.
PlanInputs read_plan_inputs(PlanArguments arguments, const std::string& config_file);

}  // namespace zeroshard::cli
