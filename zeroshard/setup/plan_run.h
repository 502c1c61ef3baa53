// A plan of a configuration, as a run would carry it out: what `zeroshard plan` prints, what a run
// with "auto" in its configuration decides by, and what it says when memory is not enough.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "zeroshard/config/read.h"
#include "zeroshard/planner/decision.h"
#include "zeroshard/planner/overheads.h"
#include "zeroshard/planner/variants.h"
#include "zeroshard/setup/choices.h"

namespace zeroshard {

struct PlanFacts {
  int ranks = 1;
  int ranks_per_node = 1;
  int nics_per_node = 0;  // 0: one for each rank
  bool on_accelerator = false;
  bool has_idle_cores = false;  // one for each rank of a host, beside those it computes on
  std::int64_t micro_batch = 1;
  std::int64_t micro_steps = 1;
  std::int64_t sequence = 0;  // 0: the model's
  std::optional<Rates> rates = {};
  DeviceSums sums = DeviceSums::none;
};

// What choices about communication go by, for a model of so many parameters.
CommunicationFacts communication_facts(const PlanFacts& facts, std::int64_t parameters);

// `read` and `model` must outlive what is made of it.
PlanSubject plan_subject(const config::ReadResult& read, const PlannedModel& model,
                         const PlanFacts& facts);

// Who adds up what devices send, where there is no communicator to ask yet: what ZEROSHARD_NCCL
// says, on ranks with a GPU each.
DeviceSums assumed_sums(const Config& config, const PlanFacts& facts);

// The variant that the configuration asks for, where it leaves nothing open.
Variant configured_variant(const Config& config);

// What it leaves open with "auto".
OpenQuestions open_questions(const config::ReadResult& read);
bool leaves_open(const config::ReadResult& read);

// Answers that by the tree, and writes the answer into it. Returns a sentence with the reason;
// throws ConfigError where nothing fits.
std::string settle_variant(config::ReadResult& read, const VariantPlanner& planner,
                           const MemoryLimits& limits);

// Writes an answer into a configuration.
void take_variant(Config& config, const PlannedVariant& planned);

}  // namespace zeroshard
