#include "zeroshard/layout/sum_scratch.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "zeroshard/layout/checked.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kFloat = 4;

std::int64_t bytes_of_part(const SummedPart& part, const SumOptions& options) {
  const std::int64_t addend = scratch_place_bytes(part.numel * bytes_of(part.in));
  switch (options.sums) {
    case DeviceSums::none: return 0;
    case DeviceSums::library: return sums_in_place(part, options) ? 0 : addend;
    case DeviceSums::rank_order:  // the sum, and what the others send
      return checked_add(scratch_place_bytes(part.numel * kFloat), (options.ranks - 1) * addend);
  }
  return 0;
}

}  // namespace

SplitFactor split_factor(float factor) {
  if (!std::isfinite(factor) || factor <= 0.0F) return {.power = 1.0F, .rest = factor};
  int exponent = 0;
  const float fraction = std::frexp(factor, &exponent);  // from 0.5 on, below 1
  return {.power = std::ldexp(1.0F, exponent - 1), .rest = fraction * 2.0F};
}

bool sums_in_place(const SummedPart& part, const SumOptions& options) {
  return split_factor(options.scale).rest == 1.0F && !options.accumulates && part.in == part.out;
}

std::int64_t sum_scratch_bytes(const std::vector<SummedPart>& parts, const SumOptions& options) {
  std::int64_t bytes = 0;
  for (const SummedPart& part : parts) bytes = checked_add(bytes, bytes_of_part(part, options));
  return bytes;
}

std::int64_t sum_scratch_bytes(const std::vector<const UnitLayout*>& units,
                               const ReductionPlan& plan, const TierPlan& tiers,
                               const GradientDTypes& dtypes, const SumOptions& options) {
  std::int64_t most = 0;
  for (const UnitBucket& bucket : plan.buckets) {
    std::vector<SummedPart> parts;
    bool on_device = options.ranks > 1;
    for (const std::size_t unit : bucket.units) {
      for (const FlatGroup& group : units[unit]->groups()) {
        if (!group.trainable) continue;
        on_device = on_device && tiers.optimizer(unit) == Tier::device;
        parts.push_back({group.layout.shard_numel(), dtypes.communication, dtypes.reduced});
      }
    }
    if (on_device) most = std::max(most, sum_scratch_bytes(parts, options));
  }
  return most;
}

}  // namespace zeroshard
