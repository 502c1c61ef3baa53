#include "cli/plan_report.h"

#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/planner/calibration.h"
#include "zeroshard/setup/settled_config.h"

namespace zeroshard::cli {
namespace {

std::string precision_of(const FootprintOptions& options) {
  const DType dtype = options.precision.model();
  if (dtype == DType::fp32) return "fp32";
  const bool halves = dtype == DType::bf16 && options.zero.halved_masters;
  return fmt::format("{} with {}", name_of(dtype),
                     halves ? "fp32 master in two halves" : "whole fp32 master");
}

std::string optimizer_of(const FootprintOptions& options) {
  return fmt::format("{} fp32 moment{} per parameter", options.moments_per_parameter,
                     options.moments_per_parameter == 1 ? "" : "s");
}

// The variant that the configuration asks for, unless it leaves that open.
std::optional<Variant> configured(const PlanInputs& inputs) {
  if (!inputs.has_config || leaves_open(inputs.read)) return std::nullopt;
  return configured_variant(inputs.read.config);
}

const PlannedVariant& of(const Variant& variant, const std::vector<PlannedVariant>& all) {
  for (const PlannedVariant& planned : all) {
    if (planned.variant == variant) return planned;
  }
  return all.front();
}

void decide(const VariantPlanner& planner, PlanReport& report) {
  const Variant wanted = report.configured.value_or(kTree.front());
  report.chosen = of(wanted, report.variants);
  if (!report.limits.any()) return;
  report.decision = walk_tree(planner, report.limits);
  report.chosen = report.decision->chosen();
  const Variant& chosen = report.chosen.variant;
  if (!report.decision->fits) return;
  if (chosen.optimizer_on_host && report.limits.device) {
    report.filled = planner.filled(chosen, report.limits);
    if (report.filled && report.filled->units_on_device == 0) report.filled.reset();
  }
  for (const PlannedVariant& planned : report.variants) {
    if (!planned.time || !planned.fits(report.limits)) continue;
    const double best = report.fastest ? report.fastest->time->step : report.chosen.time->step;
    if (planned.time->step < 0.95 * best) report.fastest = planned;
  }
}

void find_largest(const VariantPlanner& planner, PlanReport& report) {
  if (!report.limits.any()) return;
  const Variant& chosen = report.chosen.variant;
  if (report.counts_activations()) {
    report.largest_micro_batch = planner.largest_micro_batch(chosen, report.limits);
  }
  const auto largest = planner.largest_model(chosen, report.limits);
  if (largest != nullptr) report.largest_model = largest->description();
}

bool any_measured(const Rates& rates) {
  for (const NamedRate& rate : named_rates()) {
    if ((rates.*rate.member).measured) return true;
  }
  return false;
}

}  // namespace

PlanReport make_plan_report(PlanInputs inputs) {
  PlanReport report{.description = inputs.model->description(),
                    .parameters = inputs.model->parameters(),
                    .ranks = inputs.facts.ranks,
                    .ranks_per_node = inputs.facts.ranks_per_node,
                    .micro_batch = inputs.facts.micro_batch,
                    .micro_steps = inputs.facts.micro_steps,
                    .sequence = inputs.facts.sequence,
                    .device_name = inputs.device_name,
                    .rates_source = inputs.rates_source,
                    .limits = inputs.limits,
                    .assumptions = inputs.assumptions,
                    .configured = configured(inputs)};
  PlanSubject subject = plan_subject(inputs.read, *inputs.model, inputs.facts);
  // Of what is not known nothing is said: then it is as the paper counts.
  if (!report.counts_activations()) subject.overheads = {};
  const VariantPlanner planner(std::move(subject));
  for (const Variant& variant : kVariants) report.variants.push_back(planner.plan(variant));
  const FootprintOptions& options = report.variants.front().options;
  report.precision = precision_of(options);
  report.optimizer = optimizer_of(options);
  report.rates_measured = inputs.facts.rates && any_measured(*inputs.facts.rates);
  const SettledConfig settled = settle_config(
      inputs.read, {.communication = {.parameters = report.parameters,
                                      .communicates_beside_compute = inputs.facts.on_accelerator ||
                                                                     inputs.facts.has_idle_cores,
                                      .one_rank = report.ranks == 1},
                    .on_accelerator = inputs.facts.on_accelerator,
                    .stage = kVariants.back().stage});
  report.assumptions.insert(report.assumptions.end(), settled.chosen_communication.begin(),
                            settled.chosen_communication.end());
  decide(planner, report);
  find_largest(planner, report);
  std::optional<std::int64_t> budget;
  if (report.filled) budget = report.filled->memory.engine.total(Tier::device);
  report.config_text = config_to_use(inputs.parsed, report.chosen, budget, report.micro_batch);
  return report;
}

std::string_view name_of(Share share) {
  switch (share) {
    case Share::parameters: return "parameters";
    case Share::gradients: return "gradients";
    case Share::states: return "master and moments";
    case Share::buffers: return "buffers";
    case Share::activations: return "activations and logits";
    case Share::working: return "working memory";
    case Share::libraries: return "libraries";
  }
  return "?";
}

std::int64_t bytes_of(Share share, const MemoryTable& table, Tier tier) {
  const auto sum = [&](std::initializer_list<Line> lines) {
    std::int64_t bytes = 0;
    for (const Line line : lines) bytes += table.bytes(line, tier);
    return bytes;
  };
  switch (share) {
    case Share::parameters: return sum({Line::parameters});
    case Share::gradients: return sum({Line::gradients});
    case Share::states: return sum({Line::master, Line::moments});
    case Share::buffers:
      return sum({Line::gather_pool, Line::buckets, Line::staging, Line::undo, Line::snapshot});
    case Share::activations: return sum({Line::activations, Line::logits});
    case Share::working: return sum({Line::working});
    case Share::libraries: return sum({Line::library});
  }
  return 0;
}

}  // namespace zeroshard::cli
