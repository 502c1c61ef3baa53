#include "zeroshard/layout/reduction_plan.h"

#include <algorithm>

#include "zeroshard/layout/alignment.h"
#include "zeroshard/layout/bucket_plan.h"

namespace zeroshard {
namespace {

std::vector<UnitBucket> cut_buckets(const std::vector<std::int64_t>& unit_numels,
                                    const ReductionOptions& options) {
  std::vector<std::size_t> order;
  std::vector<std::int64_t> numels;
  for (std::size_t unit = unit_numels.size(); unit-- > 0;) {
    if (options.root_unit == unit) continue;
    order.push_back(unit);
    numels.push_back(unit_numels[unit]);
  }
  const BucketPlan plan(numels, options.bucket_numel);
  std::vector<UnitBucket> buckets;
  for (const Bucket& bucket : plan.buckets()) {
    const auto at = [&](std::size_t i) { return order.begin() + static_cast<std::ptrdiff_t>(i); };
    buckets.push_back({{at(bucket.first_unit), at(bucket.end_unit)}, bucket.numel});
  }
  return buckets;
}

}  // namespace

ReductionPlan plan_reductions(const std::vector<std::int64_t>& unit_numels,
                              const ReductionOptions& options) {
  ReductionPlan plan{.buckets = cut_buckets(unit_numels, options)};
  std::int64_t largest = 0;
  int filled = 0;
  for (const UnitBucket& bucket : plan.buckets) {
    largest = std::max(largest, bucket.numel);
    if (bucket.numel > 0) ++filled;
  }
  const int slots = std::min(filled, options.overlap ? 2 : 1);
  plan.ring = size_staging_ring(slots, buffer_bytes(largest, options.dtype));
  if (options.root_unit) {
    const std::int64_t numel = unit_numels.at(*options.root_unit);
    plan.buckets.push_back({{*options.root_unit}, numel});
    plan.root_slot_bytes = buffer_bytes(numel, options.dtype);
  }
  plan.total_bytes = checked_add(plan.ring.total_bytes, plan.root_slot_bytes);
  return plan;
}

}  // namespace zeroshard
