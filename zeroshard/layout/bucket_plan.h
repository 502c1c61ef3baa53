// Which units' gradients are reduced together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace zeroshard {

// Neighbouring units, [first_unit, end_unit) in reduction order.
struct Bucket {
  std::size_t first_unit = 0;
  std::size_t end_unit = 0;
  std::int64_t numel = 0;

  bool operator==(const Bucket& other) const = default;
};

// Every unit is in exactly one bucket and the order of units is kept, so results cannot depend on
// how buckets are cut: each unit's spans are summed by themselves in any case.
class BucketPlan {
 public:
  // `unit_numels`: what each unit brings to the bucket buffer (its trainable padded numel), in
  // reduction order. A bucket holds at most `bucket_numel` elements, except that a unit is never
  // cut: a larger one has a bucket for itself. Units without elements join a neighbour, so no
  // collective is spent on them. `bucket_numel` 0 means one bucket per unit.
  BucketPlan(const std::vector<std::int64_t>& unit_numels, std::int64_t bucket_numel);

  const std::vector<Bucket>& buckets() const noexcept { return buckets_; }

  // What a bucket buffer must hold.
  std::int64_t largest_numel() const noexcept { return largest_numel_; }

  std::size_t bucket_of(std::size_t unit) const;

 private:
  std::vector<Bucket> buckets_;
  std::int64_t largest_numel_ = 0;
};

}  // namespace zeroshard
