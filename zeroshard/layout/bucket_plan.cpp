#include "zeroshard/layout/bucket_plan.h"

#include <algorithm>

#include "zeroshard/base/check.h"

namespace zeroshard {
namespace {

bool joins(const Bucket& bucket, std::int64_t unit_numel, std::int64_t bucket_numel) {
  if (bucket_numel == 0) return false;
  if (bucket.numel == 0 || unit_numel == 0) return true;
  // Written as a difference: the sum may not fit in 64 bits.
  return bucket.numel <= bucket_numel && unit_numel <= bucket_numel - bucket.numel;
}

}  // namespace

BucketPlan::BucketPlan(const std::vector<std::int64_t>& unit_numels, std::int64_t bucket_numel) {
  ZS_CHECK_GE(bucket_numel, 0, "bucket size");
  for (std::size_t unit = 0; unit < unit_numels.size(); ++unit) {
    const std::int64_t numel = unit_numels[unit];
    ZS_CHECK_GE(numel, 0, "unit {} has a negative size", unit);
    if (buckets_.empty() || !joins(buckets_.back(), numel, bucket_numel)) {
      buckets_.push_back({.first_unit = unit});
    }
    buckets_.back().end_unit = unit + 1;
    buckets_.back().numel += numel;
    largest_numel_ = std::max(largest_numel_, buckets_.back().numel);
  }
}

std::size_t BucketPlan::bucket_of(std::size_t unit) const {
  const auto found =
      std::partition_point(buckets_.begin(), buckets_.end(),
                           [unit](const Bucket& bucket) { return bucket.end_unit <= unit; });
  ZS_CHECK(found != buckets_.end(), "unit {} is not in the bucket plan", unit);
  return static_cast<std::size_t>(found - buckets_.begin());
}

}  // namespace zeroshard
