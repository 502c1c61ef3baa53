// The batch triad: train = micro_per_rank * accumulation * ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "zeroshard/trainer/options.h"

namespace zeroshard::config {

struct BatchSizes {
  std::int64_t train = 0;
  std::int64_t micro_per_rank = 0;
  std::int64_t accumulation = 0;
  bool operator==(const BatchSizes&) const = default;
};

struct SolvedBatch {
  std::optional<BatchSizes> sizes;  // unset where the three do not fit, or too little is given
  std::string what = {};            // then why ...
  std::string remedy = {};          // ... and what to do; both empty when nothing was given at all
};

// DeepSpeed's derivation: the missing parts by division, then the product must be exact.
// With nothing given, or the accumulation alone, there is nothing to solve and nothing wrong.
SolvedBatch solve_batch(const BatchOptions& batch, int world_size);

// The most ranks, up to so many, that the given sizes fit; `at_most` where they fit no number of
// them.
int most_ranks(const BatchOptions& batch, int at_most);

// Whether some number of ranks exists for which the given sizes fit; else what and remedy.
SolvedBatch check_batch(const BatchOptions& batch);

}  // namespace zeroshard::config
