#include "zeroshard/trainer/run_plan.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/cpu_products.h"
#include "zeroshard/base/error.h"
#include "zeroshard/models/activations.h"
#include "zeroshard/models/planned.h"
#include "zeroshard/setup/plan_run.h"
#include "zeroshard/trainer/run_settings.h"

namespace zeroshard {
namespace {

constexpr const char* kMicroBatch = "train_micro_batch_size_per_gpu";
// So many tokens keep a device busy: a larger micro-batch takes memory and saves no time.
constexpr std::int64_t kTokensOnAccelerator = 16384;
constexpr std::int64_t kTokensOnCpu = 2048;

PlanFacts plan_facts(const RunFacts& facts, std::int64_t micro_batch, std::int64_t micro_steps) {
  return {.ranks = facts.world_size,
          .ranks_per_node = facts.ranks_on_host,
          .on_accelerator = facts.has_accelerator,
          .has_idle_cores = facts.has_idle_cores,
          .micro_batch = micro_batch,
          .micro_steps = micro_steps};
}

// A divisor of what a rank has to do in a step, where that is given; else a power of two.
std::int64_t fitting_micro_batch(const config::ReadResult& read, const RunFacts& facts,
                                 std::int64_t most) {
  const BatchOptions& batch = read.config.batch;
  if (batch.train && *batch.train % facts.world_size == 0) {
    const std::int64_t each = *batch.train / facts.world_size;
    if (batch.accumulation) return std::max<std::int64_t>(each / *batch.accumulation, 1);
    std::int64_t best = 1;
    for (std::int64_t size = 1; size <= std::min(each, most); ++size) {
      if (each % size == 0) best = size;
    }
    return best;
  }
  if (facts.sample_count > 0) most = std::min(most, facts.sample_count / facts.world_size);
  std::int64_t size = 1;
  while (2 * size <= most) size *= 2;
  return size;
}

void settle_micro_batch(config::ReadResult& read, const VariantPlanner& planner,
                        const RunFacts& facts, std::vector<std::string>& said) {
  const auto fits = planner.largest_micro_batch(configured_variant(read.config), facts.memory);
  if (!fits) {
    throw ConfigError(
        {.what = "not even a micro-batch of 1 fits into memory",
         .value = verdict(planner.plan(configured_variant(read.config)), facts.memory),
         .remedy = "let \"stage\" or \"offload_optimizer\" be \"auto\" as well, take "
                   "more ranks, or checkpoint activations"});
  }
  const std::int64_t tokens = facts.has_accelerator ? kTokensOnAccelerator : kTokensOnCpu;
  const std::int64_t useful = std::max<std::int64_t>(
      tokens / std::max<std::int64_t>(planner.subject().model->sequence(), 1), 1);
  const std::int64_t size = fitting_micro_batch(read, facts, std::min(*fits, useful));
  config::resolve_auto(read, kMicroBatch, fmt::format("{}", size));
  said.push_back(fmt::format("{} is \"auto\": {}, where {}{} fit", kMicroBatch, size,
                             *fits >= useful ? "at least " : "", std::min(*fits, useful)));
}

FootprintOptions counted_options(const RunSettings& run, const RunFacts& facts) {
  FootprintOptions options = footprint_options(run.config, run.batch.accumulation);
  options.accelerator = facts.has_accelerator;
  return options;
}

// What the run is by now, against what it may take.
PlannedVariant as_variant(const RunSettings& run, const RunPlan& plan) {
  PlannedVariant planned{.variant = configured_variant(run.config), .memory = plan.memory};
  return planned;
}

}  // namespace

std::vector<std::string> settle_auto(config::ReadResult& read, const ModelOptions& model,
                                     const config::BatchSizes& batch, const RunFacts& facts) {
  std::vector<std::string> said;
  const bool asks_micro_batch = config::left_at_auto(read.provenance, kMicroBatch);
  if (!facts.memory.any() || !(leaves_open(read) || asks_micro_batch)) return said;
  const auto planned = planned_model(model);
  // A micro-batch that is open is decided afterwards, and by then the rest must fit.
  const PlanFacts how =
      plan_facts(facts, asks_micro_batch ? 1 : batch.micro_per_rank, batch.accumulation);
  if (leaves_open(read)) {
    said.push_back(
        settle_variant(read, VariantPlanner(plan_subject(read, *planned, how)), facts.memory));
  }
  if (asks_micro_batch) {
    settle_micro_batch(read, VariantPlanner(plan_subject(read, *planned, how)), facts, said);
  }
  return said;
}

void refuse_small_budgets(const RunSettings& run, const RunFacts& facts) {
  fit_to_budgets(layout_of(run, facts.world_size), counted_options(run, facts));
}

RunPlan plan_of(const RunSettings& run, const RunFacts& facts, const SaveMemory& save) {
  FootprintOptions options = counted_options(run, facts);
  options.save = save;
  const DType dtype = run.config.precision.model();
  const ModelLayout layout = layout_of(run, facts.world_size);
  const BudgetFit budgets = judge_budgets(layout, options);
  options.first_host_unit = budgets.first_host_unit;
  options.undo_limit_bytes = budgets.undo_limit_bytes;
  const ModelActivations activations = activations_of(
      run.model, {.micro_batch = run.batch.micro_per_rank,
                  .width = static_cast<int>(bytes_of(dtype)),
                  .device = {.accelerator = facts.has_accelerator,
                             .widens = !facts.has_accelerator && !cpu_multiplies(dtype)},
                  .holds_gradients = holds_all_gradients(options, facts.world_size)});
  const ProcessOverheads overheads = process_overheads({.accelerator = facts.has_accelerator,
                                                        .ranks = facts.world_size,
                                                        .ranks_on_host = facts.ranks_on_host,
                                                        .dtype = dtype});
  return {.memory = plan_memory(layout, options,
                                {.activations = &activations, .overheads = overheads.all()}),
          .overheads = overheads};
}

bool fits_memory(const RunSettings& run, const RunPlan& plan, const RunFacts& facts) {
  return as_variant(run, plan).fits(facts.memory);
}

std::string judge_memory(const RunSettings& run, const RunPlan& plan, const RunFacts& facts) {
  const PlannedVariant planned = as_variant(run, plan);
  if (planned.fits(facts.memory)) return {};
  const std::string words = verdict(planned, facts.memory);
  const std::string fits = what_fits(run, facts, facts.memory);
  const std::string remedy = fits.empty() ? "take more ranks, a smaller model, or more memory"
                                          : "by the plan " + fits + " would fit";
  if (facts.memory_is_given) {
    throw ConfigError({.what = "the run does not fit into the memory that it is given",
                       .value = words,
                       .remedy = remedy});
  }
  const std::int64_t exact = plan.memory.at(StepPhase::rest).engine_total(Tier::device);
  if (facts.memory.device && exact > *facts.memory.device) {
    throw StorageError({.what = "the states of the run do not fit on the device",
                        .value = words,
                        .remedy = remedy});
  }
  return fmt::format("memory may not be enough: {}; {}", words, remedy);
}

std::string what_fits(const RunSettings& run, const RunFacts& facts, const MemoryLimits& limits) {
  const auto model = planned_model(run.model);
  const VariantPlanner planner(plan_subject(
      *run.read, *model, plan_facts(facts, run.batch.micro_per_rank, run.batch.accumulation)));
  const Variant now = configured_variant(run.config);
  std::vector<std::string> ways;
  const auto micro_batch = planner.largest_micro_batch(now, limits);
  if (micro_batch && *micro_batch < run.batch.micro_per_rank) {
    ways.push_back(fmt::format("a micro-batch of {}", *micro_batch));
  }
  for (const Variant& variant : kTree) {
    if (variant == now || variant.stage < now.stage) continue;
    if (!planner.plan(variant).fits(limits)) continue;
    ways.push_back(name_of(variant));
    break;
  }
  const auto* gpt = std::get_if<GptOptions>(&run.model);
  if (gpt != nullptr && !gpt->checkpoint_activations) {
    GptOptions checkpointed = *gpt;
    checkpointed.checkpoint_activations = true;
    const auto other = planned_model(checkpointed);
    const VariantPlanner again(plan_subject(
        *run.read, *other, plan_facts(facts, run.batch.micro_per_rank, run.batch.accumulation)));
    if (again.plan(now).fits(limits)) ways.emplace_back("checkpoint=true in --model");
  }
  return fmt::format("{}", fmt::join(ways, ", or "));
}

}  // namespace zeroshard
