// The order of an epoch's samples: a shuffle that is computed, not stored. Any position is reached
// at once, nothing grows with the data, and every rank has the same order without asking.
//
//   const SampleOrder order(files.sample_count(), {.seed = 42, .epoch = 3});
//   order.sample_at(0);   // which sample comes first in epoch 3
#pragma once

#include <array>
#include <cstdint>

namespace zeroshard {

struct Shuffle {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
};

class SampleOrder {
 public:
  // `size` samples, from 1 to 2^62.
  SampleOrder(std::int64_t size, Shuffle shuffle);

  std::int64_t size() const { return size_; }

  // A permutation of [0, size): each sample at one position. Costs some tens of nanoseconds.
  std::int64_t sample_at(std::int64_t position) const;

 private:
  static constexpr int kRounds = 8;

  std::uint64_t shuffled_once(std::uint64_t value) const;

  std::int64_t size_;
  std::uint64_t rows_;
  std::uint64_t columns_;
  std::array<std::uint64_t, kRounds> keys_;
};

}  // namespace zeroshard
