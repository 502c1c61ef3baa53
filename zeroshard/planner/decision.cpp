#include "zeroshard/planner/decision.h"

#include <algorithm>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/layout/placement.h"

namespace zeroshard {
namespace {

std::string held(const PlannedVariant& planned, const MemoryLimits& limits, Tier tier) {
  const std::string needed = human_bytes(planned.needed(tier));
  const auto limit = limits.of(tier);
  const std::string of = limit ? " of " + human_bytes(*limit) : "";
  return fmt::format("{}{} on the {}", needed, of, tier == Tier::device ? "device" : "host");
}

bool shards_parameters(const Variant& variant) {
  return stage_row(variant.stage).parameters == Placement::sharded;
}

// The branches of the tree that what is given leaves.
std::vector<Variant> branches(const OpenQuestions& open) {
  std::vector<Variant> all;
  const auto add = [&](const Variant& variant) {
    if (std::ranges::find(all, variant) == all.end()) all.push_back(variant);
  };
  for (Variant variant : kTree) {
    if (!open.stage && !shards_parameters(variant)) variant.stage = open.given.stage;
    if (!open.stage && variant.stage != open.given.stage) continue;
    if (!open.offload && variant.optimizer_on_host != open.given.optimizer_on_host) continue;
    if (!open.parameters) {
      variant.parameters_on_host = shards_parameters(variant) && open.given.parameters_on_host;
    }
    add(variant);
  }
  return all;
}

// What of its name the one before it does not say already.
std::string step_name(const Variant& variant, const Variant* before) {
  const bool only_adds = before != nullptr && before->stage == variant.stage;
  if (!only_adds) return name_of(variant);
  if (variant.parameters_on_host && !before->parameters_on_host) return "  + offload_param";
  return "  + offload_optimizer";
}

}  // namespace

std::string verdict(const PlannedVariant& planned, const MemoryLimits& limits) {
  if (planned.budget_shortage) {
    return fmt::format("{}: {}", planned.budget_shortage->what, planned.budget_shortage->value);
  }
  const bool host = planned.fits(Tier::host, limits);
  const char* const says = planned.fits(limits) ? "fits" : "does not fit";
  if (limits.both) {
    return fmt::format("{} of {}, {}", human_bytes(planned.needed_of_both()),
                       human_bytes(*limits.both), says);
  }
  if (!host || planned.memory.engine.total(Tier::host) > 0) {
    return fmt::format("{}, {}, {}", held(planned, limits, Tier::device),
                       held(planned, limits, Tier::host), says);
  }
  return fmt::format("{}, {}", held(planned, limits, Tier::device), says);
}

Decision walk_tree(const VariantPlanner& planner, const MemoryLimits& limits,
                   const OpenQuestions& open) {
  Decision decision;
  for (const Variant& variant : branches(open)) {
    const Variant* const before =
        decision.walked.empty() ? nullptr : &decision.walked.back().variant;
    const std::string name = step_name(variant, before);
    decision.walked.push_back(planner.plan(variant));
    decision.fits = decision.walked.back().fits(limits);
    decision.words.push_back(fmt::format("{}: {}{}", name, verdict(decision.walked.back(), limits),
                                         decision.fits ? ": stop" : ""));
    if (decision.fits) break;
  }
  return decision;
}

}  // namespace zeroshard
