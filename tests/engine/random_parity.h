// One random comparison; the seed is all it needs to happen again.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "tests/engine/random_plan.h"

namespace zeroshard::test {

// Two stages that must agree, with everything else that must not matter chosen anew for each.
inline void expect_parity(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const RunPlan numbers = random_numbers(random);
  RunPlan a = with_random_placement(numbers, random);
  RunPlan b = with_random_placement(numbers, random);
  const bool in_pairs = numbers.options.accumulation_steps > 1;
  const int first = static_cast<int>(random() % 4);
  a.options.zero.stage = first;
  b.options.zero.stage = in_pairs ? first / 2 * 2 + 1 - first % 2 : static_cast<int>(random() % 4);
  std::string problem;
  try {
    problem = difference(train(a), train(b));
  } catch (const std::exception& error) {
    problem = error.what();
  }
  EXPECT_EQ(problem, "") << "seed " << seed << "\n  " << describe(a) << "\n  " << describe(b);
}

}  // namespace zeroshard::test
