#include "zeroshard/base/counter_random.h"

#include <cmath>
#include <numbers>

#include "zeroshard/base/fnv1a.h"
#include "zeroshard/base/mix64.h"

namespace zeroshard {
namespace {

double unit_interval(std::uint64_t bits) { return static_cast<double>(bits >> 11U) * 0x1p-53; }

}  // namespace

CounterRandom::CounterRandom(std::string_view name, std::uint64_t seed)
    : key_(mix64(Fnv1a().add(name).value() ^ mix64(seed))) {}

// Mixed twice: neighbouring counters of neighbouring keys have nothing in common.
std::uint64_t CounterRandom::bits(std::uint64_t counter) const {
  return mix64(mix64(counter) ^ key_);
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
