#include "zeroshard/planner/step_messages.h"

#include <algorithm>

#include "zeroshard/layout/checked.h"
#include "zeroshard/layout/placement.h"
#include "zeroshard/layout/reduction_plan.h"
#include "zeroshard/layout/traffic.h"

namespace zeroshard {
namespace {

class Messenger {
 public:
  Messenger(const ModelLayout& model, const FootprintOptions& options)
      : model_(model), options_(options), stage_(stage_row(options.zero.stage)) {}

  StepMessages run() {
    StepMessages messages;
    const bool sharded = stage_.parameters == Placement::sharded;
    const GatherPool pool = sharded ? gather_pool(model_, options_.zero) : GatherPool{};
    for (std::size_t i = 0; i < model_.units().size(); ++i) {
      messages.units.push_back(unit(i, sharded && !pool.persistent[i]));
    }
    add_buckets(messages);
    if (!sharded) return messages;
    const std::vector<Phase> phases = forward_and_backward(model_.units().size());
    messages.forward = gather_order(model_, options_.zero, pool, phases[0]);
    messages.backward = gather_order(model_, options_.zero, pool, phases[1]);
    return messages;
  }

 private:
  Traffic traffic(const FlatGroup& group, bool released) const {
    return traffic_per_step(stage_, static_cast<int>(options_.micro_steps),
                            {.trainable = group.trainable, .released = released});
  }

  // All groups of a unit travel together; those that need not travel stay out of it.
  UnitMessages unit(std::size_t index, bool released) const {
    UnitMessages unit{.released = released};
    const DType gradients = gradient_types(options_).reduced;
    for (const FlatGroup& group : model_.units()[index].groups()) {
      const Traffic of = traffic(group, released);
      if (of.parameter_gathers > 0) add(unit.parameter_bytes, group, group.dtype);
      if (of.gradient_gathers > 0) add(unit.gradient_bytes, group, gradients);
      unit.parameter_gathers = std::max(unit.parameter_gathers, of.parameter_gathers);
      unit.gradient_gathers = std::max(unit.gradient_gathers, of.gradient_gathers);
    }
    return unit;
  }

  void add_buckets(StepMessages& messages) const {
    const ReductionPlan plan = reduction_plan(model_, options_);
    if (packs_buckets(options_)) messages.bucket_slots = static_cast<std::size_t>(plan.ring.slots);
    for (const UnitBucket& bucket : plan.buckets) {
      BucketMessages messages_of{.units = bucket.units};
      for (const std::size_t unit : bucket.units) {
        for (const FlatGroup& group : model_.units()[unit].groups()) {
          const std::int64_t reduces = traffic(group, false).reduces;
          if (reduces > 0) add(messages_of.bytes, group, options_.precision.communication());
          messages_of.reduces = std::max(messages_of.reduces, reduces);
        }
      }
      messages.buckets.push_back(std::move(messages_of));
    }
  }

  static void add(std::int64_t& bytes, const FlatGroup& group, DType dtype) {
    bytes = checked_add(bytes, bytes_sent_once(group.layout, dtype));
  }

  const ModelLayout& model_;
  const FootprintOptions& options_;
  const Stage& stage_;
};

}  // namespace

std::int64_t StepMessages::reduces() const {
  std::int64_t sum = 0;
  for (const BucketMessages& bucket : buckets) sum += bucket.reduces;
  return sum;
}

std::int64_t StepMessages::gathers() const {
  std::int64_t sum = 0;
  for (const UnitMessages& unit : units) sum += unit.parameter_gathers + unit.gradient_gathers;
  return sum;
}

std::int64_t StepMessages::collectives() const {
  return units.empty() ? 0 : reduces() + gathers() + 1;
}

StepMessages step_messages(const ModelLayout& model, const FootprintOptions& options) {
  if (model.units().empty() || model.units().front().world_size() == 1) return {};
  return Messenger(model, options).run();
}

}  // namespace zeroshard
