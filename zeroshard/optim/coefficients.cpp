#include "zeroshard/optim/coefficients.h"

#include <cmath>

#include "zeroshard/base/check.h"
#include "zeroshard/optim/options.h"

namespace zeroshard {
namespace {

float to_float(double value) { return static_cast<float>(value); }

// base^exponent by squaring. std::pow is another function on another CPU or C library, this is the
// same multiplications everywhere; its relative error is about exponent * 2^-53.
double power(double base, std::int64_t exponent) {
  double result = 1.0;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result *= base;
    base *= base;
  }
  return result;
}

}  // namespace

AdamCoefficients adam_coefficients(const AdamOptions& options, const StepScalars& scalars) {
  ZS_CHECK_GE(scalars.step, 1, "steps are counted from 1");
  const auto [beta1, beta2] = options.betas;
  const bool correct = options.bias_correction;
  const double correction1 = correct ? 1.0 - power(beta1, scalars.step) : 1.0;
  const double correction2 = correct ? 1.0 - power(beta2, scalars.step) : 1.0;
  const double decay = options.weight_decay;
  return {.gradient_factor = scalars.gradient_factor,
          .beta1 = to_float(beta1),
          .gain1 = to_float(1.0 - beta1),
          .beta2 = to_float(beta2),
          .gain2 = to_float(1.0 - beta2),
          .root_scale = to_float(1.0 / std::sqrt(correction2)),
          .eps = to_float(options.eps),
          .step_size = to_float(-options.lr / correction1),
          .coupled_decay = options.decoupled_decay ? 0.0F : to_float(decay),
          .decoupled_decay = options.decoupled_decay ? to_float(-options.lr * decay) : 0.0F};
}

SgdCoefficients sgd_coefficients(const SgdOptions& options, const StepScalars& scalars) {
  return {.gradient_factor = scalars.gradient_factor,
          .step_size = to_float(-options.lr),
          .decay = to_float(options.weight_decay)};
}

MomentumCoefficients momentum_coefficients(const SgdOptions& options, const StepScalars& scalars) {
  ZS_CHECK_GE(scalars.step, 1, "steps are counted from 1");
  return {.gradient_factor = scalars.gradient_factor,
          .step_size = to_float(-options.lr),
          .decay = to_float(options.weight_decay),
          .momentum = to_float(options.momentum),
          .gain = to_float(1.0 - options.dampening),
          .first = scalars.step == 1,
          .nesterov = options.nesterov};
}

LionCoefficients lion_coefficients(const LionOptions& options, const StepScalars& scalars) {
  return {.gradient_factor = scalars.gradient_factor,
          .beta1 = to_float(options.betas[0]),
          .gain1 = to_float(1.0 - options.betas[0]),
          .beta2 = to_float(options.betas[1]),
          .gain2 = to_float(1.0 - options.betas[1]),
          .lr = to_float(options.lr),
          .decay = to_float(-options.lr * options.weight_decay)};
}

AdagradCoefficients adagrad_coefficients(const AdagradOptions& options,
                                         const StepScalars& scalars) {
  return {.gradient_factor = scalars.gradient_factor,
          .step_size = to_float(-options.lr),
          .eps = to_float(options.eps),
          .decay = to_float(options.weight_decay)};
}

}  // namespace zeroshard
