#include "cli/plan_report.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/check.h"
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

void decide(const VariantPlanner& planner, PlanReport& report) {
  const Variant wanted = report.configured.value_or(kTree.front());
  report.chosen = report.variant(wanted);
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

std::optional<PlanReport::Collective> collective_of(const PlanFacts& facts) {
  if (facts.ranks == 1 || !facts.rates || !facts.rates->has_network()) return std::nullopt;
  const Topology topology{.ranks = facts.ranks,
                          .ranks_per_node = facts.ranks_per_node,
                          .nics_per_node = facts.nics_per_node};
  const Route route = gather_route(facts.on_accelerator);
  return PlanReport::Collective{latency_seconds(topology, *facts.rates, route),
                                bytes_per_second(topology, *facts.rates, route)};
}

void find_largest(const VariantPlanner& planner, PlanReport& report) {
  if (!report.limits.any()) return;
  const Variant& chosen = report.chosen.variant;
  if (report.counts_activations()) {
    report.largest_micro_batch = planner.largest_micro_batch(chosen, report.limits);
  }
  const auto largest = planner.largest_model(chosen, report.limits);
  if (largest == nullptr) return;
  const std::int64_t most = largest->largest_size();
  const bool is_bound = most > 1 && largest->size() == most;
  report.largest_model = largest->description() + (is_bound ? ", and larger ones" : "");
}

}  // namespace

bool PlanReport::has_times() const {
  return std::ranges::any_of(variants,
                             [](const PlannedVariant& each) { return each.time.has_value(); });
}

const PlannedVariant& PlanReport::variant(const Variant& which) const {
  const auto found = std::ranges::find(variants, which, &PlannedVariant::variant);
  ZS_CHECK(found != variants.end(), "{} is not planned", zeroshard::name_of(which));
  return *found;
}

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
                    .rates = inputs.facts.rates,
                    .limits = inputs.limits,
                    .assumptions = inputs.assumptions,
                    .configured = configured(inputs)};
  PlanSubject subject = plan_subject(inputs.read, *inputs.model, inputs.facts);
  // Of what is not known nothing is said: then it is as the paper counts.
  if (!report.counts_activations()) subject.overheads = {};
  report.collective = collective_of(inputs.facts);
  const VariantPlanner planner(std::move(subject));
  for (const Variant& variant : kVariants) report.variants.push_back(planner.plan(variant));
  if (report.configured && std::ranges::find(kVariants, *report.configured) == kVariants.end()) {
    report.variants.push_back(planner.plan(*report.configured));
  }
  const FootprintOptions& options = report.variants.front().options;
  report.precision = precision_of(options);
  report.optimizer = optimizer_of(options);
  const SettledConfig settled = settle_config(
      inputs.read, {.communication = communication_facts(inputs.facts, report.parameters),
                    .on_accelerator = inputs.facts.on_accelerator,
                    .stage = kVariants.back().stage});
  report.assumptions.insert(report.assumptions.end(), settled.chosen_communication.begin(),
                            settled.chosen_communication.end());
  decide(planner, report);
  find_largest(planner, report);
  if (report.decision && !report.decision->fits) return report;
  ChosenSettings settings{.micro_batch = report.micro_batch, .whole_masters = inputs.whole_masters};
  if (report.filled) settings.device_budget = report.filled->memory.engine.total(Tier::device);
  report.config_text = config_to_use(inputs.parsed, report.chosen.variant, settings);
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
      return sum({Line::gather_pool, Line::buckets, Line::sums, Line::staging, Line::undo,
                  Line::snapshot});
    case Share::activations: return sum({Line::activations, Line::logits});
    case Share::working: return sum({Line::working});
    case Share::libraries: return sum({Line::library});
  }
  return 0;
}

std::int64_t shown_bytes(Share share, const PlannedVariant& planned, const MemoryLimits& limits) {
  const MemoryPlan& memory = planned.memory;
  const std::int64_t device = bytes_of(share, memory.at(memory.worst(Tier::device)), Tier::device);
  if (!limits.both) return device;
  const std::int64_t host = bytes_of(share, memory.at(memory.worst(Tier::host)), Tier::host);
  const bool has_undo = share == Share::buffers;  // which early updates do without
  return device + host - (has_undo ? memory.engine.buffers(BufferUse::undo, Tier::host) : 0);
}

std::int64_t shown_total(const PlannedVariant& planned, const MemoryLimits& limits) {
  return limits.both ? planned.needed_of_both() : planned.needed(Tier::device);
}

std::optional<std::int64_t> shown_limit(const MemoryLimits& limits) {
  return limits.both ? limits.both : limits.device;
}

std::string left_cell(const PlannedVariant& planned, const MemoryLimits& limits) {
  const auto host = planned.left(Tier::host, limits);
  const auto device =
      limits.both ? planned.left_of_both(limits) : planned.left(Tier::device, limits);
  if (device && *device < 0) return "over by " + human_bytes(-*device);
  if (host && *host < 0) return "host over by " + human_bytes(-*host);
  if (planned.budget_shortage) return "over its budget";
  if (device) return human_bytes(*device);
  return host ? "host " + human_bytes(*host) : "";
}

std::string rate_text(const NamedRate& name, const Rate& rate) {
  if (name.unit == "s") return fmt::format("{:.3g} us", rate.value * 1e6);
  constexpr double kTera = 1e12, kGiga = 1e9;
  const bool tera = rate.value >= kTera;
  return fmt::format("{:.3g} {}{}", rate.value / (tera ? kTera : kGiga), tera ? "T" : "G",
                     name.unit);
}

std::vector<NamedRate> used_rates(const PlanReport& report) {
  std::vector<NamedRate> used;
  if (!report.rates) return used;
  for (const NamedRate& name : named_rates()) {
    const bool far = name.member == &Rates::far_bytes || name.member == &Rates::far_hop_seconds;
    const bool travels = far || name.member == &Rates::near_bytes ||
                         name.member == &Rates::collective_seconds ||
                         name.member == &Rates::near_hop_seconds;
    const bool counts =
        travels ? report.ranks > (far ? report.ranks_per_node : 1) : report.has_times();
    if (counts && ((*report.rates).*name.member).value > 0) used.push_back(name);
  }
  return used;
}

}  // namespace zeroshard::cli
