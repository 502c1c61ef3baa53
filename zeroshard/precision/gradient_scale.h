// The factors a gradient meets between backward and the optimizer, and whether the step happens at
// all. Pure functions of numbers that are equal on all ranks, so ranks cannot disagree.
#pragma once

#include "zeroshard/precision/options.h"

namespace zeroshard {

// Should this step be skipped, on all ranks? `norm` is the global gradient norm, scaled or not.
//
// A norm that is not finite means some gradient was not, and stepping would destroy the weights:
// fp16 and fp32 always skip. bf16 skips unless `bf16.check_grad_overflow` is false: who sets that
// wants to see the NaN. The answer is the same in every stage, and a fixed loss scale skips as a
// dynamic one does. LossScaler::update() is told the answer.
bool should_skip(const PrecisionOptions& options, double norm);

struct ClipInputs {
  double scaled_norm = 0.0;  // global L2 norm of the gradients as they are, before unscaling
  double loss_scale = 1.0;   // what they were made with: the scale before the scaler's update
  double clip = 0.0;         // gradient_clipping; 0: none
};

// What every gradient is multiplied by, unscaling and clipping in one:
//   1 / (scale * max(1, (norm / scale + 1e-6) / clip)).
// A norm that is not finite clips nothing, so a step that goes on keeps the finite gradients.
float gradient_factor(const ClipInputs& inputs);

// The norm people want to see: without the loss scale.
inline double unscaled_norm(const ClipInputs& inputs) {
  return inputs.scaled_norm / inputs.loss_scale;
}

}  // namespace zeroshard
