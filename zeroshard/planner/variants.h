// The ways to hold a model: stages 0 to 3, with and without offload. What each takes of a rank, in
// memory, traffic and time.
//
//   const VariantPlanner planner(subject);
//   PlannedVariant planned = planner.plan({.stage = 2, .optimizer_on_host = true});
//   planned.fits(limits);
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "zeroshard/layout/checked.h"
#include "zeroshard/planner/memory_fit.h"
#include "zeroshard/planner/memory_plan.h"
#include "zeroshard/planner/planned_model.h"
#include "zeroshard/planner/step_time.h"

namespace zeroshard {

struct Variant {
  int stage = 0;
  bool optimizer_on_host = false;
  bool parameters_on_host = false;  // where they are sharded

  bool operator==(const Variant&) const = default;
};

// "stage 2 + offload_optimizer"
std::string name_of(const Variant& variant);

inline constexpr std::array<Variant, 9> kVariants{{{0, false, false},
                                                   {1, false, false},
                                                   {2, false, false},
                                                   {3, false, false},
                                                   {0, true, false},
                                                   {1, true, false},
                                                   {2, true, false},
                                                   {3, true, false},
                                                   {3, true, true}}};

// Of one rank. What is not set has no limit.
struct MemoryLimits {
  std::optional<std::int64_t> device = {};
  std::optional<std::int64_t> host = {};
  std::optional<std::int64_t> both = {};  // where the CPU is the device, both are its memory

  std::optional<std::int64_t> of(Tier tier) const { return tier == Tier::device ? device : host; }
  bool any() const { return device || host || both; }
};

struct PlannedVariant {
  Variant variant;
  FootprintOptions options;
  MemoryPlan memory;
  std::int64_t sent_bytes = 0;   // per rank and step
  std::int64_t collectives = 0;  // in a step
  // Units are gathered for each use, and none ahead, though the configuration asks for it.
  bool gathers_late = false;
  std::optional<StepEstimate> time = {};
  std::optional<double> network_seconds = {};  // known where the whole time is not
  std::size_t units_on_device = 0;             // that keep their optimizer states there
  std::optional<Fault> budget_shortage = {};   // a budget of the configuration is too small

  bool fits(Tier tier, const MemoryLimits& limits) const;
  bool fits(const MemoryLimits& limits) const;
  // At the peak, what early updates take aside: they do without where there is no room for it.
  std::int64_t needed(Tier tier) const;
  std::int64_t needed_of_both() const {
    return checked_add(needed(Tier::device), needed(Tier::host));
  }
  // What a limit leaves; negative: by how much it is over. Unset: no limit.
  std::optional<std::int64_t> left(Tier tier, const MemoryLimits& limits) const;
  std::optional<std::int64_t> left_of_both(const MemoryLimits& limits) const;
};

// What is planned for.
struct PlanSubject {
  const PlannedModel* model = nullptr;
  int ranks = 1;
  int ranks_per_node = 1;
  int nics_per_node = 0;  // 0: one for each rank
  std::int64_t micro_batch = 1;
  std::int64_t micro_steps = 1;
  std::int64_t sequence = 0;  // 0: the model's
  ComputeDevice device = {};
  Overheads overheads = {};
  std::optional<Rates> rates = {};
  // What a run makes of the configuration. It is asked with the number of parameters, by which
  // buckets are chosen.
  std::function<FootprintOptions(const Variant&, std::int64_t parameters)> options = {};
};

class VariantPlanner {
 public:
  explicit VariantPlanner(PlanSubject subject) : subject_(std::move(subject)) {}

  const PlanSubject& subject() const { return subject_; }
  // Asked again, it answers what it has found out.
  const PlannedVariant& plan(const Variant& variant) const;
  // With as many units' optimizer states on the device as fit there; nothing where not even their
  // absence is enough.
  std::optional<PlannedVariant> filled(const Variant& variant, const MemoryLimits& limits) const;

  // The largest that fits; nothing where 1 is too much.
  std::optional<std::int64_t> largest_micro_batch(const Variant& variant,
                                                  const MemoryLimits& limits) const;
  std::unique_ptr<PlannedModel> largest_model(const Variant& variant,
                                              const MemoryLimits& limits) const;

 private:
  // What changes while something largest is looked for.
  struct Question {
    const PlannedModel& model;
    std::int64_t micro_batch;
    bool with_time;
    std::optional<std::size_t> first_host_unit = {};
  };
  PlannedVariant answer(const Variant& variant, const Question& question) const;

  const PlanSubject subject_;
  mutable std::deque<PlannedVariant> planned_;  // references stay good while it grows
};

}  // namespace zeroshard
