// Takes gradients on their way into `.grad`.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zeroshard/engine/torch_version.h"

namespace zeroshard {

class Core;

// How hooks find the engine; empty once it is gone, since the model's parameters may outlive it.
struct CoreLink {
  Core* core = nullptr;
};

// Keeps the parameter's accumulator node, which the parameter itself holds only weakly.
class GradientHandle {
 public:
  GradientHandle(const at::Tensor& parameter, std::shared_ptr<CoreLink> link, std::size_t unit,
                 std::size_t index);

 private:
  KeptNode node_;
};

}  // namespace zeroshard
