// The numbers of one update that are the same for every element: computed once, in double, and
// rounded to fp32 once, so that instruction sets and threads cannot disagree about them.
//
// Plain structs without member functions: sources compiled for AVX read them, and such a source may
// emit no function that another one shares (see numeric/transfers.h).
#pragma once

#include <cstdint>

namespace zeroshard {

struct AdamOptions;
struct SgdOptions;
struct LionOptions;
struct AdagradOptions;

// What changes from step to step.
struct StepScalars {
  // Every gradient is multiplied by this: unscaling and clipping in one
  // (precision/gradient_scale.h).
  float gradient_factor = 1.0F;
  // How many updates the span has had, this one included: 1 is the first.
  std::int64_t step = 1;
};

// A decay of 0 means none: the operation is left out, not done with 0.
struct AdamCoefficients {
  float gradient_factor;
  float beta1, gain1;     // m = beta1 * m + gain1 * g
  float beta2, gain2;     // v = beta2 * v + gain2 * g * g
  float root_scale, eps;  // d = root_scale * sqrt(v) + eps
  float step_size;        // p = p + step_size * (m / d)
  float coupled_decay;    // g = g + coupled_decay * p
  float decoupled_decay;  // p = p + decoupled_decay * p
};

struct SgdCoefficients {
  float gradient_factor;
  float step_size;  // p = p + step_size * g
  float decay;      // g = g + decay * p
};

struct MomentumCoefficients {
  float gradient_factor;
  float step_size;
  float decay;
  float momentum, gain;  // b = momentum * b + gain * g
  bool first;            // b = g instead, as PyTorch does
  bool nesterov;         // p moves by g + momentum * b instead of b
};

struct LionCoefficients {
  float gradient_factor;
  float beta1, gain1;  // c = beta1 * m + gain1 * g; p = p - lr * sign(c)
  float beta2, gain2;  // m = beta2 * m + gain2 * g
  float lr;
  float decay;  // p = p + decay * p
};

struct AdagradCoefficients {
  float gradient_factor;
  float step_size;  // p = p + step_size * (g / (sqrt(s) + eps))
  float eps;
  float decay;  // g = g + decay * p
};

AdamCoefficients adam_coefficients(const AdamOptions& options, const StepScalars& scalars);
SgdCoefficients sgd_coefficients(const SgdOptions& options, const StepScalars& scalars);
MomentumCoefficients momentum_coefficients(const SgdOptions& options, const StepScalars& scalars);
LionCoefficients lion_coefficients(const LionOptions& options, const StepScalars& scalars);
AdagradCoefficients adagrad_coefficients(const AdagradOptions& options, const StepScalars& scalars);

}  // namespace zeroshard
