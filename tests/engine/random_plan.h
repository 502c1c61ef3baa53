// Random settings of a run, and the ones that must not change its results.
#pragma once

#include <random>
#include <string>

#include "tests/engine/parity_run.h"

namespace zeroshard::test {

// What decides the numbers: ranks, precision, accumulation, clipping, optimizer, model.
RunPlan random_numbers(std::mt19937_64& random);
// What must not: stage (of the pair or of all), buckets, overlap, prefetch, persistence.
RunPlan with_random_placement(RunPlan plan, std::mt19937_64& random);
std::string describe(const RunPlan& plan);

}  // namespace zeroshard::test
