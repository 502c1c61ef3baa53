#include "zeroshard/precision/gradient_scale.h"

#include <algorithm>
#include <cmath>

#include "zeroshard/base/check.h"

namespace zeroshard {

bool should_skip(const PrecisionOptions& options, double norm) {
  if (std::isfinite(norm)) return false;
  return options.model() != DType::bf16 || options.bf16.check_grad_overflow;
}

float gradient_factor(const ClipInputs& inputs) {
  ZS_CHECK_GT(inputs.loss_scale, 0.0, "loss scale");
  ZS_CHECK_GE(inputs.clip, 0.0, "gradient_clipping");
  double divisor = inputs.loss_scale;
  if (inputs.clip > 0.0 && std::isfinite(inputs.scaled_norm)) {
    // DeepSpeed's and PyTorch's: the small addend keeps the clipped norm just below the clip.
    const double excess = (unscaled_norm(inputs) + 1e-6) / inputs.clip;
    divisor *= std::max(1.0, excess);
  }
  return static_cast<float>(1.0 / divisor);
}

}  // namespace zeroshard
