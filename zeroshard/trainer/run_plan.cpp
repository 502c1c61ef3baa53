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
#include "zeroshard/planner/memory_fit.h"
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
          .micro_steps = micro_steps,
          .sums = facts.sums};
}

// Micro-batches that are asked about, each with the micro-steps that it leaves to a step: several
// of them add up their gradients in memory that one does without.
class MicroBatches {
 public:
  MicroBatches(const config::ReadResult& read, const PlannedModel& model, const RunFacts& facts)
      : read_(read), model_(model), facts_(facts), variant_(configured_variant(read.config)) {}

  VariantPlanner planner(std::int64_t micro_batch, std::int64_t micro_steps) const {
    return VariantPlanner(
        plan_subject(read_, model_, plan_facts(facts_, micro_batch, micro_steps)));
  }
  PlannedVariant plan(std::int64_t micro_batch, std::int64_t micro_steps) const {
    return planner(micro_batch, micro_steps).plan(variant_);
  }

  // What fits and saves time: a divisor of what a rank has to do in a step, where that is given;
  // else a power of two.
  std::optional<std::int64_t> choose(std::int64_t useful) const {
    const BatchOptions& batch = read_.config.batch;
    const std::int64_t steps = batch.accumulation.value_or(1);
    if (!batch.train || *batch.train % facts_.world_size != 0) return power_of_two(useful, steps);
    const std::int64_t each = *batch.train / facts_.world_size;
    if (batch.accumulation) {
      const std::int64_t size = std::max<std::int64_t>(each / steps, 1);
      return fits(size, steps) ? std::optional(size) : std::nullopt;
    }
    for (std::int64_t size = std::min(each, useful); size >= 1; --size) {
      if (each % size == 0 && fits(size, each / size)) return size;
    }
    return std::nullopt;
  }

  // The largest with as many micro-steps as one of that size leaves.
  std::int64_t most_beside(std::int64_t size) const {
    const BatchOptions& batch = read_.config.batch;
    std::int64_t steps = batch.accumulation.value_or(1);
    if (batch.train) {
      steps = std::max<std::int64_t>(*batch.train / (facts_.world_size * size), steps);
    }
    return planner(size, steps).largest_micro_batch(variant_, facts_.memory).value_or(size);
  }

 private:
  bool fits(std::int64_t micro_batch, std::int64_t micro_steps) const {
    return plan(micro_batch, micro_steps).fits(facts_.memory);
  }

  std::optional<std::int64_t> power_of_two(std::int64_t most, std::int64_t steps) const {
    const auto fits = planner(1, steps).largest_micro_batch(variant_, facts_.memory);
    if (!fits) return std::nullopt;
    most = std::min(most, *fits);
    if (facts_.sample_count > 0) most = std::min(most, facts_.sample_count / facts_.world_size);
    std::int64_t size = 1;
    while (2 * size <= most) size *= 2;
    return size;
  }

  const config::ReadResult& read_;
  const PlannedModel& model_;
  const RunFacts& facts_;
  const Variant variant_;
};

// The micro-steps of a step whose micro-batches are of one sample, or as many as are given.
std::int64_t most_micro_steps(const BatchOptions& batch, const RunFacts& facts) {
  if (batch.accumulation || !batch.train) return batch.accumulation.value_or(1);
  return std::max<std::int64_t>(*batch.train / facts.world_size, 1);
}

void settle_micro_batch(config::ReadResult& read, const PlannedModel& model, const RunFacts& facts,
                        std::vector<std::string>& said) {
  const MicroBatches micro_batches(read, model, facts);
  const std::int64_t tokens = facts.has_accelerator ? kTokensOnAccelerator : kTokensOnCpu;
  const std::int64_t useful =
      std::max<std::int64_t>(tokens / std::max<std::int64_t>(model.sequence(), 1), 1);
  const auto size = micro_batches.choose(useful);
  if (!size) {
    const PlannedVariant least = micro_batches.plan(1, most_micro_steps(read.config.batch, facts));
    throw ConfigError(
        {.what = "no micro-batch fits into memory that makes the batch size, not even 1",
         .value = verdict(least, facts.memory),
         .remedy = "let \"stage\" or \"offload_optimizer\" be \"auto\" as well, take "
                   "more ranks, or checkpoint activations"});
  }
  const std::int64_t most = micro_batches.most_beside(*size);
  config::resolve_auto(read, kMicroBatch, fmt::format("{}", *size));
  said.push_back(fmt::format("{} is \"auto\": {}, where {}{} fit", kMicroBatch, *size,
                             most >= useful ? "at least " : "", std::min(most, useful)));
}

FootprintOptions counted_options(const RunSettings& run, const RunFacts& facts) {
  FootprintOptions options = footprint_options(run.config, run.batch.accumulation);
  options.accelerator = facts.has_accelerator;
  options.sums = facts.sums;
  return options;
}

// What the run is by now, against what it may take.
PlannedVariant as_variant(const RunSettings& run, const RunPlan& plan) {
  PlannedVariant planned{.variant = configured_variant(run.config), .memory = plan.memory};
  return planned;
}

// What the engine will hold, by category, beside what the host leaves a rank.
std::string states_beside(const Footprint& engine, const RunFacts& facts) {
  std::string text = in_one_line(engine, Tier::device);
  if (engine.total(Tier::host) > 0) text += " and offloaded " + in_one_line(engine, Tier::host);
  text += fmt::format(" for each rank, while it can have {}", human_bytes(*facts.memory.both));
  return facts.host_said_by.empty() ? text : text + ", which " + facts.host_said_by + " leaves";
}

}  // namespace

std::vector<std::string> settle_auto(config::ReadResult& read, const ModelOptions& model,
                                     const config::BatchSizes& batch, const RunFacts& facts) {
  std::vector<std::string> said;
  const bool asks_micro_batch = config::left_at_auto(read.provenance, kMicroBatch);
  if (!facts.memory.any() || !(leaves_open(read) || asks_micro_batch)) return said;
  const auto planned = planned_model(model);
  // A micro-batch that is open is decided afterwards, and by then the rest must fit.
  const PlanFacts how = asks_micro_batch
                            ? plan_facts(facts, 1, most_micro_steps(read.config.batch, facts))
                            : plan_facts(facts, batch.micro_per_rank, batch.accumulation);
  if (leaves_open(read)) {
    said.push_back(
        settle_variant(read, VariantPlanner(plan_subject(read, *planned, how)), facts.memory));
  }
  if (asks_micro_batch) {
    settle_micro_batch(read, *planned, facts, said);
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
  const MemoryTable& rest = plan.memory.at(StepPhase::rest);
  const std::int64_t exact = rest.engine_total(Tier::device);
  if (facts.memory.device && exact > *facts.memory.device) {
    throw StorageError({.what = "the states of the run do not fit on the device",
                        .value = words,
                        .remedy = remedy});
  }
  // Records of early updates are made where there is room for them.
  const std::int64_t needed = exact + rest.engine_total(Tier::host) -
                              plan.memory.engine.buffers(BufferUse::undo, Tier::host);
  if (facts.memory.both && needed > *facts.memory.both) {
    throw StorageError(
        {.what = "the states of the run do not fit into the host's memory",
         .value = states_beside(plan.memory.engine, facts),
         .remedy = remedy + "; where there is more, such as swap, say --host-memory SIZE"});
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
