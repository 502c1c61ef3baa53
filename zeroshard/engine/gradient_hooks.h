// Takes gradients on their way into `.grad`.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zeroshard/engine/torch_version.h"
#include "zeroshard/engine/weak_core.h"

namespace zeroshard {

// Keeps the parameter's accumulator node, which the parameter itself holds only weakly.
class GradientHandle {
 public:
  GradientHandle(const at::Tensor& parameter, std::shared_ptr<WeakCore> core, std::size_t unit,
                 std::size_t index);

 private:
  KeptNode node_;
};

}  // namespace zeroshard
