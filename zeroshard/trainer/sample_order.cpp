#include "zeroshard/trainer/sample_order.h"

#include <cmath>

#include "zeroshard/base/check.h"
#include "zeroshard/base/mix64.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kMostSamples = std::int64_t{1} << 62;

// The least number whose square is at least `size`; the loops mend what floating point rounds.
std::uint64_t square_root_up(std::int64_t size) {
  const auto n = static_cast<std::uint64_t>(size);
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(size)));
  while (root * root < n) ++root;
  while (root > 1 && (root - 1) * (root - 1) >= n) --root;
  return root;
}

}  // namespace

// The positions are the cells of a nearly square table with just enough cells, so that walking
// (below) leaves it rarely: there are fewer surplus cells than columns.
SampleOrder::SampleOrder(std::int64_t size, Shuffle shuffle) : size_(size) {
  ZS_CHECK(size >= 1 && size <= kMostSamples, "{} samples", size);
  columns_ = square_root_up(size);
  rows_ = (static_cast<std::uint64_t>(size) + columns_ - 1) / columns_;
  std::uint64_t key = mix64(mix64(shuffle.seed) ^ static_cast<std::uint64_t>(shuffle.epoch));
  for (std::uint64_t& round_key : keys_) round_key = key = mix64(key);
}

// A Feistel network on (row, column): each round shifts one of them by a random function of the
// other, which can be undone. So the whole is a permutation of the table's cells.
std::uint64_t SampleOrder::shuffled_once(std::uint64_t value) const {
  std::uint64_t row = value / columns_, column = value % columns_;
  for (int round = 0; round < kRounds; round += 2) {
    const auto at = static_cast<std::size_t>(round);
    row = (row + mix64(column ^ keys_[at]) % rows_) % rows_;
    column = (column + mix64(row ^ keys_[at + 1]) % columns_) % columns_;
  }
  return row * columns_ + column;
}

// Cells beyond `size` are no samples: walk on along the permutation's cycle until one is. That is
// again a permutation, and the walk ends at the latest where it began.
std::int64_t SampleOrder::sample_at(std::int64_t position) const {
  ZS_CHECK(position >= 0 && position < size_, "position {} of {}", position, size_);
  auto value = static_cast<std::uint64_t>(position);
  do value = shuffled_once(value);
  while (value >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(value);
}

}  // namespace zeroshard
