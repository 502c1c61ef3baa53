#include "zeroshard/base/counter_random.h"

#include "zeroshard/base/fnv1a.h"
#include "zeroshard/base/mix64.h"
#include "zeroshard/base/normal_quantile.h"

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

// From the middle of one of 2^52 equal intervals: never 0 and never 1.
double CounterRandom::normal(std::uint64_t element) const {
  return normal_quantile((static_cast<double>(bits(2 * element) >> 12U) + 0.5) * 0x1p-52);
}

}  // namespace zeroshard
