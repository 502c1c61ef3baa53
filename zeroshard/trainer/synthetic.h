// Data that needs no file: points on a line, for the smallest example there is.
//
//   const LinearData data({.samples = 1000, .seed = 42});       // y = 2x + 1, x in [-1, 1)
//   data.fill(plan.samples_of(micro), xs, ys);
#pragma once

#include <cstdint>
#include <span>

#include "zeroshard/base/counter_random.h"

namespace zeroshard {

struct LinearOptions {
  std::int64_t samples = 1000;
  std::uint64_t seed = 0;
  float slope = 2.0F;
  float intercept = 1.0F;
};

class LinearData {
 public:
  explicit LinearData(const LinearOptions& options);

  std::int64_t sample_count() const { return options_.samples; }
  float x_of(std::int64_t sample) const;
  float y_of(std::int64_t sample) const;

  // One number per sample each.
  void fill(std::span<const std::int64_t> samples, std::span<float> xs, std::span<float> ys) const;

 private:
  LinearOptions options_;
  CounterRandom random_;
};

}  // namespace zeroshard
