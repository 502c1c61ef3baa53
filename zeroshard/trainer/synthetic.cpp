#include "zeroshard/trainer/synthetic.h"

#include <cmath>
#include <string>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"

namespace zeroshard {

LinearData::LinearData(const LinearOptions& options)
    : options_(options), random_("linear data", options.seed) {
  if (options_.samples >= 1) return;
  throw ConfigError({.what = "the number of samples is out of range",
                     .value = std::to_string(options_.samples),
                     .remedy = "give at least 1"});
}

// A multiple of 2^-23, which a float holds exactly: rounding could otherwise reach 1 itself.
float LinearData::x_of(std::int64_t sample) const {
  ZS_CHECK(sample >= 0 && sample < options_.samples, "sample {} of {}", sample, options_.samples);
  const double cell = std::floor(random_.uniform(static_cast<std::uint64_t>(sample)) * 0x1p24);
  return static_cast<float>(cell * 0x1p-23 - 1.0);
}

float LinearData::y_of(std::int64_t sample) const {
  return options_.slope * x_of(sample) + options_.intercept;
}

void LinearData::fill(std::span<const std::int64_t> samples, std::span<float> xs,
                      std::span<float> ys) const {
  ZS_CHECK_EQ(xs.size(), samples.size());
  ZS_CHECK_EQ(ys.size(), samples.size());
  for (std::size_t row = 0; row < samples.size(); ++row) {
    xs[row] = x_of(samples[row]);
    ys[row] = y_of(samples[row]);
  }
}

}  // namespace zeroshard
