// Precision of parameters and gradients, and what is done to gradients on their way.
#pragma once

#include <cstdint>
#include <optional>

#include "zeroshard/base/check.h"
#include "zeroshard/base/dtype.h"

namespace zeroshard {

struct Fp16Options {
  bool enabled = false;
  bool auto_cast = false;   // cast floating inputs of forward to fp16
  double loss_scale = 0.0;  // 0: dynamic
  std::int64_t initial_scale_power = 16;
  std::int64_t loss_scale_window = 1000;
  std::int64_t hysteresis = 2;
  bool consecutive_hysteresis = false;
  std::int64_t min_loss_scale = 1;
};

struct Bf16Options {
  bool enabled = false;
  bool check_grad_overflow = true;  // a non-finite gradient skips the step
};

struct PrecisionOptions {
  Fp16Options fp16;
  Bf16Options bf16;
  std::optional<DType> grad_accum_dtype;         // unset: see accumulation()
  std::optional<DType> communication_data_type;  // unset: the model's dtype
  bool prescale_gradients = false;
  double gradient_predivide_factor = 1.0;
  double gradient_clipping = 1.0;  // global L2 norm; 0: no clipping

  DType model() const {
    if (fp16.enabled) return DType::fp16;
    return bf16.enabled ? DType::bf16 : DType::fp32;
  }
  DType communication() const { return communication_data_type.value_or(model()); }
  // Local gradients between micro-steps.
  DType accumulation() const { return grad_accum_dtype.value_or(model()); }
  // Whether gradients are multiplied on their way where there is one rank, and so no mean to take.
  bool scales_alone() const { return !prescale_gradients && gradient_predivide_factor != 1.0; }
  // G, the reduced gradient: fp32 where several reductions add up in it, else what travelled.
  DType reduced(bool adds_up) const { return adds_up ? DType::fp32 : communication(); }
};

// The mean over ranks is after_sum * sum over ranks of (before_sum * gradient).
struct MeanFactors {
  // On the local gradient; the product is rounded to the communication dtype.
  float before_sum = 1.0F;
  float after_sum = 1.0F;  // on the fp32 sum
};

// By default everything comes after, in fp32. `prescale_gradients` divides by the ranks before the
// sum instead; `gradient_predivide_factor` f (without prescaling, as in DeepSpeed) divides by f
// before and multiplies by f / ranks after. The planner asks this, too: what memory sums need
// depends on the factor.
inline MeanFactors mean_factors(const PrecisionOptions& options, int world_size) {
  ZS_CHECK_GE(world_size, 1, "mean over ranks");
  ZS_CHECK_GT(options.gradient_predivide_factor, 0.0, "gradient_predivide_factor");
  const double ranks = world_size;
  if (options.prescale_gradients) return {.before_sum = static_cast<float>(1.0 / ranks)};
  const double predivide = options.gradient_predivide_factor;
  return {.before_sum = static_cast<float>(1.0 / predivide),
          .after_sum = static_cast<float>(predivide / ranks)};
}

}  // namespace zeroshard
