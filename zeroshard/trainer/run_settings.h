// All that a training run needs to know, decided before anything is allocated. What neither the
// configuration nor the command line says gets a default, and the run says which.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "zeroshard/config/batch_size.h"
#include "zeroshard/config/config.h"
#include "zeroshard/config/read.h"
#include "zeroshard/layout/unit_layout.h"
#include "zeroshard/models/options.h"
#include "zeroshard/planner/variants.h"
#include "zeroshard/trainer/options.h"

namespace zeroshard {

struct RunFacts {
  int world_size = 1;
  bool has_accelerator = false;
  bool has_idle_cores = false;    // one for each rank of this host, beside those it computes on
  std::int64_t sample_count = 0;  // 0: not known
  int ranks_on_host = 1;
  MemoryLimits memory = {};            // that a rank may take; none: not known
  bool memory_is_given = false;        // by the user: then an estimate counts as much as a fact
  std::string host_said_by = {};       // the file that limits the host, where it is this one
  DeviceSums sums = DeviceSums::none;  // of the communicator
};

struct RunSettings {
  Config config;  // with an optimizer, a precision, and nothing that this version does not do
  ModelOptions model;
  config::BatchSizes batch = {};
  std::int64_t steps = 0;
  std::vector<std::string> assumed = {};   // what nobody said and was chosen
  std::vector<std::string> replaced = {};  // what the command line says in place of the file
  std::shared_ptr<const config::ReadResult> read = nullptr;  // with what was "auto" resolved
  std::string config_text = "{}";  // the file's, as it was when the run began
};

// The run's configuration file, or an empty one where none is named. Parsed once per process.
config::ParsedConfig parse_config_of(const TrainOptions& options);
// Where --batch-size replaces its batch sizes, they need not fit the ranks.
config::ReadResult read_config_of(const TrainOptions& options, const config::ParsedConfig& parsed,
                                  int world_size);

// Throws ConfigError where the configuration has errors, or cannot be run.
RunSettings resolve_run(const TrainOptions& options, const config::ReadResult& read,
                        const RunFacts& facts);

// What the engine will lay out, for the planner.
ModelLayout layout_of(const RunSettings& run, int world_size);

}  // namespace zeroshard
