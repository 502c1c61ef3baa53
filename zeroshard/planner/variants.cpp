#include "zeroshard/planner/variants.h"

#include <fmt/format.h>

#include "zeroshard/layout/placement.h"
#include "zeroshard/planner/largest.h"
#include "zeroshard/planner/step_messages.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kMostMicroBatch = 1 << 20;

// What is beyond counting is beyond any limit.
template <typename Fits>
bool countable_and(const Fits& fits) {
  try {
    return fits();
  } catch (const BeyondCounting&) {
    return false;
  }
}

}  // namespace

std::string name_of(const Variant& variant) {
  return fmt::format("stage {}{}{}", variant.stage,
                     variant.optimizer_on_host ? " + offload_optimizer" : "",
                     variant.parameters_on_host ? " + offload_param" : "");
}

std::int64_t PlannedVariant::needed(Tier tier) const {
  return memory.peak(tier) - memory.engine.buffers(BufferUse::undo, tier);
}

std::optional<std::int64_t> PlannedVariant::left(Tier tier, const MemoryLimits& limits) const {
  const auto limit = limits.of(tier);
  return limit ? std::optional(*limit - needed(tier)) : std::nullopt;
}

std::optional<std::int64_t> PlannedVariant::left_of_both(const MemoryLimits& limits) const {
  return limits.both ? std::optional(*limits.both - needed_of_both()) : std::nullopt;
}

bool PlannedVariant::fits(Tier tier, const MemoryLimits& limits) const {
  return left(tier, limits).value_or(0) >= 0;
}

bool PlannedVariant::fits(const MemoryLimits& limits) const {
  return !budget_shortage && left_of_both(limits).value_or(0) >= 0 && fits(Tier::device, limits) &&
         fits(Tier::host, limits);
}

PlannedVariant VariantPlanner::answer(const Variant& variant, const Question& question) const {
  FootprintOptions options = subject_.options(variant, question.model.parameters());
  const ModelLayout layout = question.model.layout(options.precision.model(), subject_.ranks);
  if (question.first_host_unit) options.first_host_unit = question.first_host_unit;
  PlannedVariant planned{.variant = variant, .options = options, .memory = {}};
  const BudgetFit fit = judge_budgets(layout, options);
  if (!question.first_host_unit) planned.options.first_host_unit = fit.first_host_unit;
  planned.options.undo_limit_bytes = fit.undo_limit_bytes;
  planned.budget_shortage = fit.shortage;
  const auto activations = question.model.activations(
      {.micro_batch = question.micro_batch,
       .sequence = subject_.sequence,
       .width = static_cast<int>(bytes_of(options.precision.model())),
       .device = subject_.device,
       .holds_gradients = holds_all_gradients(planned.options, subject_.ranks)});
  planned.memory = plan_memory(
      layout, planned.options,
      {.activations = activations ? &*activations : nullptr, .overheads = subject_.overheads});
  if (!question.with_time) return planned;
  planned.units_on_device = tier_plan(layout, planned.options).first_host_unit;
  planned.sent_bytes = bytes_sent_per_step(layout, planned.options);
  const StepMessages messages = step_messages(layout, planned.options);
  planned.collectives = messages.collectives();
  planned.gathers_late = messages.forward.visits.size() > 1 && !messages.forward.goes_ahead() &&
                         planned.options.zero.prefetch_numel > 0;
  if (!subject_.rates || !subject_.rates->has_network()) return planned;
  static const ModelActivations kUnknown;
  const StepFacts facts{.model = layout,
                        .options = planned.options,
                        .activations = activations ? *activations : kUnknown,
                        .rates = *subject_.rates,
                        .ranks_per_node = subject_.ranks_per_node,
                        .nics_per_node = subject_.nics_per_node};
  if (activations && subject_.rates->has_compute()) planned.time = step_time(facts);
  planned.network_seconds = planned.time ? planned.time->network : network_seconds(facts);
  return planned;
}

const PlannedVariant& VariantPlanner::plan(const Variant& variant) const {
  for (const PlannedVariant& planned : planned_) {
    if (planned.variant == variant) return planned;
  }
  return planned_.emplace_back(answer(
      variant, {.model = *subject_.model, .micro_batch = subject_.micro_batch, .with_time = true}));
}

std::optional<PlannedVariant> VariantPlanner::filled(const Variant& variant,
                                                     const MemoryLimits& limits) const {
  const FootprintOptions options = subject_.options(variant, subject_.model->parameters());
  const std::size_t units =
      subject_.model->layout(options.precision.model(), subject_.ranks).units().size();
  const auto at = [&](std::int64_t first_host_unit, bool with_time) {
    return answer(variant, {.model = *subject_.model,
                            .micro_batch = subject_.micro_batch,
                            .with_time = with_time,
                            .first_host_unit = static_cast<std::size_t>(first_host_unit)});
  };
  const auto first = largest_that(0, static_cast<std::int64_t>(units), [&](std::int64_t each) {
    return at(each, false).fits(Tier::device, limits);
  });
  if (!first) return std::nullopt;
  PlannedVariant planned = at(*first, true);
  if (!planned.fits(limits)) return std::nullopt;
  return planned;
}

std::optional<std::int64_t> VariantPlanner::largest_micro_batch(const Variant& variant,
                                                                const MemoryLimits& limits) const {
  return largest_that(1, kMostMicroBatch, [&](std::int64_t micro_batch) {
    const Question question{
        .model = *subject_.model, .micro_batch = micro_batch, .with_time = false};
    return countable_and([&] { return answer(variant, question).fits(limits); });
  });
}

std::unique_ptr<PlannedModel> VariantPlanner::largest_model(const Variant& variant,
                                                            const MemoryLimits& limits) const {
  const auto fits = [&](std::int64_t each) {
    return countable_and([&] {
      const std::unique_ptr<PlannedModel> model = subject_.model->of_size(each);
      const Question question{
          .model = *model, .micro_batch = subject_.micro_batch, .with_time = false};
      return answer(variant, question).fits(limits);
    });
  };
  const std::int64_t most = subject_.model->largest_size();
  const double tolerance = subject_.model->size_tolerance();
  const auto size = tolerance == 0 ? largest_that(1, most, fits)
                                   : largest_about(subject_.model->size(), most, tolerance, fits);
  return size ? subject_.model->of_size(*size) : nullptr;
}

}  // namespace zeroshard
