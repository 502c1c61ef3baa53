#include "zeroshard/setup/plan_run.h"

#include <utility>

#include "zeroshard/base/cpu_products.h"
#include "zeroshard/config/provenance.h"
#include "zeroshard/layout/placement.h"
#include "zeroshard/setup/settled_config.h"

namespace zeroshard {
namespace {

constexpr const char* kStage = "zero_optimization.stage";
constexpr const char* kOffload = "zero_optimization.offload_optimizer.device";

bool shards_parameters(int stage) { return stage_row(stage).parameters == Placement::sharded; }

}  // namespace

PlanSubject plan_subject(const config::ReadResult& read, const PlannedModel& model,
                         const PlanFacts& facts) {
  const auto options_of = [&read, facts](const Variant& variant, std::int64_t parameters) {
    SettledConfig settled =
        settle_config(read, {.communication = {.parameters = parameters,
                                               .communicates_beside_compute =
                                                   facts.on_accelerator || facts.has_idle_cores,
                                               .one_rank = facts.ranks == 1},
                             .on_accelerator = facts.on_accelerator,
                             .stage = variant.stage});
    OffloadOptions& offload = settled.config.offload;
    offload.optimizer = variant.optimizer_on_host ? Tier::host : Tier::device;
    offload.parameters = variant.parameters_on_host ? Tier::host : Tier::device;
    FootprintOptions options = footprint_options(settled.config, facts.micro_steps);
    options.accelerator = facts.on_accelerator;
    return options;
  };
  const DType dtype = options_of({}, 1).precision.model();
  return {.model = &model,
          .ranks = facts.ranks,
          .ranks_per_node = facts.ranks_per_node,
          .micro_batch = facts.micro_batch,
          .micro_steps = facts.micro_steps,
          .sequence = facts.sequence,
          .device = {.accelerator = facts.on_accelerator,
                     .widens = !facts.on_accelerator && !cpu_multiplies(dtype)},
          .overheads = process_overheads({.accelerator = facts.on_accelerator,
                                          .ranks = facts.ranks,
                                          .ranks_on_host = facts.ranks_per_node,
                                          .dtype = dtype})
                           .all(),
          .rates = facts.rates,
          .options = options_of};
}

Variant configured_variant(const Config& config) {
  return {.stage = config.zero.stage,
          .optimizer_on_host = config.offload.optimizer != Tier::device,
          .parameters_on_host =
              config.offload.parameters != Tier::device && shards_parameters(config.zero.stage)};
}

OpenQuestions open_questions(const config::ReadResult& read) {
  return {.stage = config::left_at_auto(read.provenance, kStage),
          .offload = config::left_at_auto(read.provenance, kOffload),
          .given = configured_variant(read.config)};
}

bool leaves_open(const config::ReadResult& read) {
  const OpenQuestions open = open_questions(read);
  return open.stage || open.offload;
}

void take_variant(Config& config, const PlannedVariant& planned) {
  config.zero.stage = planned.variant.stage;
  config.offload.optimizer = planned.variant.optimizer_on_host ? Tier::host : Tier::device;
  config.offload.parameters = planned.variant.parameters_on_host ? Tier::host : Tier::device;
}

}  // namespace zeroshard
