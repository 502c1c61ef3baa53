// Memory of a device that reductions need beside what they read and write, where they are made on
// devices and not in host memory. Planner, engine and the backend all call this, so that they
// cannot disagree.
#pragma once

#include <cstdint>
#include <vector>

#include "zeroshard/base/dtype.h"
#include "zeroshard/layout/reduction_plan.h"
#include "zeroshard/layout/tier_plan.h"
#include "zeroshard/layout/unit_layout.h"

namespace zeroshard {

// Who adds up what ranks send from devices.
enum class DeviceSums {
  none,        // hosts do
  library,     // NCCL, in the dtype that travels
  rank_order,  // we, in fp32 and in rank order, from all ranks' addends
};

// What a reduction does with its sums: they are multiplied, and added to what is there or not.
struct SumOptions {
  DeviceSums sums = DeviceSums::none;
  int ranks = 1;
  float scale = 1.0F;
  bool accumulates = false;
};

// A rank's part of one pair of a reduction.
struct SummedPart {
  std::int64_t numel = 0;
  DType in = DType::fp32;
  DType out = DType::fp32;
};

// A factor in two: a power of two, by which addends are multiplied before NCCL's sum (nothing is
// rounded unless it is subnormal), and the rest, by which the sum is.
struct SplitFactor {
  float power = 1.0F;
  float rest = 1.0F;
};
SplitFactor split_factor(float factor);

// Whether NCCL's sum is written where it belongs: unless something is to be done to it first.
bool sums_in_place(const SummedPart& part, const SumOptions& options);

// What one array takes of the scratch memory: kernels read and write whole vectors, so that each
// begins like a buffer.
constexpr std::int64_t scratch_place_bytes(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Of one reduction.
std::int64_t sum_scratch_bytes(const std::vector<SummedPart>& parts, const SumOptions& options);

struct GradientDTypes {
  DType communication;
  DType reduced;
};

// Of the largest of a step's reductions: one after the other uses the same memory. A bucket of
// which a unit's G is on the host goes there as a whole.
std::int64_t sum_scratch_bytes(const std::vector<const UnitLayout*>& units,
                               const ReductionPlan& plan, const TierPlan& tiers,
                               const GradientDTypes& dtypes, const SumOptions& options);

}  // namespace zeroshard
