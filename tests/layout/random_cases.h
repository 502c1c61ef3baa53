// Random shapes for the property tests. Every case comes from a seed of a fixed list; the trace of
// a failing test names it.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace zeroshard::testing {

inline constexpr std::uint64_t kSeeds[] = {1, 7, 42, 1234, 99991, 20240601, 3141592653, 271828};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  // Both ends included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  int world_size() { return static_cast<int>(between(1, 64)); }
  bool chance(int percent) { return between(1, 100) <= percent; }

 private:
  std::mt19937_64 engine_;
};

inline std::int64_t random_prime(Random& random) {
  static constexpr std::int64_t kPrimes[] = {2, 3, 61, 67, 127, 131, 257, 509, 1021, 2053};
  return kPrimes[random.between(0, 9)];
}

// One numel of the kind that breaks layouts: empty, scalar, prime, just around a multiple of 64.
inline std::int64_t random_numel(Random& random) {
  switch (random.between(0, 5)) {
    case 0: return 0;
    case 1: return 1;
    case 2: return random_prime(random);
    case 3: return 64 * random.between(1, 6);
    case 4: return 64 * random.between(1, 6) + (random.chance(50) ? 1 : -1);
    default: return random.between(0, 700);
  }
}

// A flat group's numels: a mix, or all of one kind, or one giant among small ones. `giant` bounds
// the largest, so that tests which touch every element stay fast.
inline std::vector<std::int64_t> random_numels(Random& random, std::int64_t giant) {
  std::vector<std::int64_t> numels(static_cast<std::size_t>(random.between(0, 12)));
  const std::int64_t kind = random.between(0, 5);
  for (std::int64_t& numel : numels) {
    if (kind == 0) numel = 0;
    if (kind == 1) numel = 1;
    if (kind == 2) numel = random_prime(random);
    if (kind >= 3) numel = random_numel(random);
  }
  if (kind == 5 && !numels.empty()) {
    const std::int64_t last = static_cast<std::int64_t>(numels.size()) - 1;
    numels[static_cast<std::size_t>(random.between(0, last))] = random.between(giant / 2, giant);
  }
  return numels;
}

// Calls `body(random, case)` for thousands of cases; wrap checks in it with
// SCOPED_TRACE(trace(...)).
template <typename Body>
void for_each_case(int cases_per_seed, Body body) {
  for (const std::uint64_t seed : kSeeds) {
    Random random(seed);
    for (int i = 0; i < cases_per_seed; ++i) {
      body(random, "seed " + std::to_string(seed) + ", case " + std::to_string(i));
    }
  }
}

}  // namespace zeroshard::testing
