#include "zeroshard/base/counter_random.h"

#include <cmath>
#include <numbers>

#include "zeroshard/base/fnv1a.h"

namespace zeroshard {
namespace {

// SplitMix64's finaliser (Steele, Lea and Flood, 2014): every bit of the input moves every bit of
// the output.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

double unit_interval(std::uint64_t bits) { return static_cast<double>(bits >> 11U) * 0x1p-53; }

}  // namespace

CounterRandom::CounterRandom(std::string_view name, std::uint64_t seed)
    : key_(mixed(Fnv1a().add(name).value() ^ mixed(seed))) {}

// Mixed twice: neighbouring counters of neighbouring keys have nothing in common.
std::uint64_t CounterRandom::bits(std::uint64_t counter) const {
  return mixed(mixed(counter) ^ key_);
}

double CounterRandom::uniform(std::uint64_t element) const {
  return unit_interval(bits(2 * element));
}

double CounterRandom::normal(std::uint64_t element) const {
  const double radius = 1.0 - unit_interval(bits(2 * element));  // in (0, 1]: it has a logarithm
  const double angle = unit_interval(bits(2 * element + 1));
  return std::sqrt(-2.0 * std::log(radius)) * std::cos(2.0 * std::numbers::pi * angle);
}

}  // namespace zeroshard
