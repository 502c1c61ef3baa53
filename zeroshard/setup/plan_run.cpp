#include "zeroshard/setup/plan_run.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zeroshard/base/cpu_products.h"
#include "zeroshard/base/env.h"
#include "zeroshard/base/error.h"
#include "zeroshard/comm/connect_devices.h"
#include "zeroshard/config/provenance.h"
#include "zeroshard/layout/placement.h"
#include "zeroshard/setup/settled_config.h"

namespace zeroshard {
namespace {

constexpr const char* kStage = "zero_optimization.stage";
constexpr const char* kOffload = "zero_optimization.offload_optimizer.device";
constexpr const char* kParameters = "zero_optimization.offload_param.device";
constexpr const char* kOldParameters = "zero_optimization.cpu_offload_param";

bool shards_parameters(int stage) { return stage_row(stage).parameters == Placement::sharded; }

}  // namespace

// The sizes that are chosen must be the run's, which does not know of cards that are shared.
CommunicationFacts communication_facts(const PlanFacts& facts, std::int64_t parameters) {
  return {.parameters = parameters,
          .topology = {.ranks = facts.ranks, .ranks_per_node = facts.ranks_per_node},
          .on_accelerator = facts.on_accelerator,
          .communicates_beside_compute = facts.on_accelerator || facts.has_idle_cores,
          .one_rank = facts.ranks == 1};
}

PlanSubject plan_subject(const config::ReadResult& read, const PlannedModel& model,
                         const PlanFacts& facts) {
  const auto options_of = [&read, facts](const Variant& variant, std::int64_t parameters) {
    SettledConfig settled =
        settle_config(read, {.communication = communication_facts(facts, parameters),
                             .on_accelerator = facts.on_accelerator,
                             .stage = variant.stage});
    OffloadOptions& offload = settled.config.offload;
    offload.optimizer = variant.optimizer_on_host ? Tier::host : Tier::device;
    offload.parameters = variant.parameters_on_host ? Tier::host : Tier::device;
    FootprintOptions options = footprint_options(settled.config, facts.micro_steps);
    options.accelerator = facts.on_accelerator;
    options.sums = facts.sums;
    return options;
  };
  const DType dtype = options_of({}, 1).precision.model();
  return {.model = &model,
          .ranks = facts.ranks,
          .ranks_per_node = facts.ranks_per_node,
          .nics_per_node = facts.nics_per_node,
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

DeviceSums assumed_sums(const Config& config, const PlanFacts& facts) {
  if (!facts.on_accelerator || facts.ranks == 1) return DeviceSums::none;
  const NcclWish wish = nccl_wish();
  const bool chooses = wish == NcclWish::automatic && kNcclHasRunOnGpus;
  if (wish != NcclWish::insist && !chooses) return DeviceSums::none;
  return config.zero.deterministic ? DeviceSums::rank_order : DeviceSums::library;
}

Variant configured_variant(const Config& config) {
  return {.stage = config.zero.stage,
          .optimizer_on_host = config.offload.optimizer != Tier::device,
          .parameters_on_host =
              config.offload.parameters != Tier::device && shards_parameters(config.zero.stage)};
}

// Where parameters lie is a part of the question only where nobody has said it. What is said holds
// for stage 3, which may be what the answer is.
OpenQuestions open_questions(const config::ReadResult& read) {
  const bool offload = config::left_at_auto(read.provenance, kOffload);
  const bool says =
      config::says(read.provenance, kParameters) || config::says(read.provenance, kOldParameters);
  return {.stage = config::left_at_auto(read.provenance, kStage),
          .offload = offload,
          .parameters = offload && !says,
          .given = {.stage = read.config.zero.stage,
                    .optimizer_on_host = read.config.offload.optimizer != Tier::device,
                    .parameters_on_host = read.config.offload.parameters != Tier::device}};
}

bool leaves_open(const config::ReadResult& read) {
  const OpenQuestions open = open_questions(read);
  return open.stage || open.offload;
}

std::string settle_variant(config::ReadResult& read, const VariantPlanner& planner,
                           const MemoryLimits& limits) {
  const OpenQuestions open = open_questions(read);
  const Decision decision = walk_tree(planner, limits, open);
  std::vector<std::string> branches = decision.words;
  for (std::string& branch : branches) branch.erase(0, branch.find_first_not_of(' '));
  const std::string words = fmt::format("{}", fmt::join(branches, "; "));
  if (!decision.fits) {
    throw ConfigError(
        {.what = "the model fits into memory in no way that is left open with "
                 "\"auto\"",
         .value = words,
         .remedy = "take more ranks, a smaller model or micro-batch, or more memory"});
  }
  const Variant& chosen = decision.chosen().variant;
  if (open.stage) {
    config::resolve_auto(read, kStage, fmt::format("{}", chosen.stage));
  }
  if (open.offload) {
    config::resolve_auto(read, kOffload, chosen.optimizer_on_host ? "\"cpu\"" : "\"none\"");
  }
  if (chosen.parameters_on_host) read.config.offload.parameters = Tier::host;
  return fmt::format("{} \"auto\": {}",
                     open.stage && open.offload ? "stage and offload_optimizer are"
                     : open.stage               ? "stage is"
                                                : "offload_optimizer is",
                     words);
}

void take_variant(Config& config, const PlannedVariant& planned) {
  config.zero.stage = planned.variant.stage;
  config.offload.optimizer = planned.variant.optimizer_on_host ? Tier::host : Tier::device;
  config.offload.parameters = planned.variant.parameters_on_host ? Tier::host : Tier::device;
}

}  // namespace zeroshard
