// Random numbers as a function of (name, element): any rank can make any element by itself, so the
// same weights come out whatever the number of ranks and whichever spans they own.
//
//   const CounterRandom random("blocks.3.up.weight", seed);
//   random.normal(17);    // of element 17, mean 0 and deviation 1
#pragma once

#include <cstdint>
#include <string_view>

namespace zeroshard {

class CounterRandom {
 public:
  CounterRandom(std::string_view name, std::uint64_t seed);

  // In [0, 1), 53 random bits.
  double uniform(std::uint64_t element) const;
  // With 52 random bits: at most 8.3 deviations from 0.
  double normal(std::uint64_t element) const;

 private:
  std::uint64_t bits(std::uint64_t counter) const;

  std::uint64_t key_;
};

}  // namespace zeroshard
