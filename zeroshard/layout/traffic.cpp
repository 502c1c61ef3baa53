#include "zeroshard/layout/traffic.h"

#include "zeroshard/layout/checked.h"

namespace zeroshard {
namespace {

// A collective in its two halves, each of which sends (N-1)/N of the group.
struct Halves {
  std::int64_t reduces;
  std::int64_t gathers;
};

Halves halves_of(Placement from, Placement to) {
  switch (collective_for(from, to)) {
    case Collective::all_reduce: return {1, 1};
    case Collective::reduce_scatter: return {1, 0};
    case Collective::all_gather: return {0, 1};
    case Collective::none:
    case Collective::slice: break;
  }
  return {0, 0};
}

}  // namespace

Traffic traffic_per_step(const Stage& stage, int micro_steps, const GroupUse& use) {
  ZS_CHECK_GE(micro_steps, 1, "a step has at least one micro-step");
  // A unit that is never released is whole between uses whatever the row says.
  const Placement between_uses = use.released ? stage.parameters : Placement::replicated;
  const Halves at_use = halves_of(between_uses, Placement::replicated);
  Traffic traffic;
  // One use in forward and one in backward: frozen weights too pass gradients to their inputs.
  traffic.parameter_gathers = 2 * std::int64_t{micro_steps} * at_use.gathers;
  if (!use.trainable) return traffic;

  // Backward leaves every micro-step's gradient partial.
  const Halves accumulating = halves_of(Placement::partial, stage.gradients_accumulating);
  const Halves last = halves_of(Placement::partial, stage.gradients_reduced);
  traffic.reduces = (micro_steps - 1) * accumulating.reduces + last.reduces;
  traffic.gradient_gathers = (micro_steps - 1) * accumulating.gathers + last.gathers;
  traffic.parameter_gathers += halves_of(stage.optimizer_states, between_uses).gathers;
  return traffic;
}

std::int64_t bytes_sent_once(const FlatLayout& layout, DType dtype) {
  return checked_mul(checked_mul(layout.shard_numel(), layout.world_size() - 1), bytes_of(dtype));
}

TrafficBytes bytes_sent(const FlatLayout& layout, const Traffic& traffic,
                        const TrafficDTypes& dtypes) {
  const auto sent = [&](std::int64_t times, DType dtype) {
    return checked_mul(times, bytes_sent_once(layout, dtype));
  };
  return {.reduce = sent(traffic.reduces, dtypes.reduced),
          .gather = checked_add(sent(traffic.gradient_gathers, dtypes.gathered_gradients),
                                sent(traffic.parameter_gathers, dtypes.parameters))};
}

}  // namespace zeroshard
