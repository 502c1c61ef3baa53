// The residual stream of a block whose activations are checkpointed, on a GPU.
//
// Backward computes such a block again. Of its two sums the last one is the block's output, which
// nobody reads then, and the first one is small beside what it costs: so the first is kept and
// neither product is computed a second time. On a CPU a block is computed again as it is.
#pragma once

#include <memory>

#include <torch/types.h>

#include "zeroshard/models/layers.h"

namespace zeroshard::models {

// Of one use of a block: made by its caller, filled by its first forward, read by the second.
struct KeptActivations {
  torch::Tensor after_attention;
};
using Kept = std::shared_ptr<KeptActivations>;

// For units, which look for tensors in what they are given: these belong to the block alone.
template <typename See>
void visit_tensors(Kept&, const See&) {}

// x + linear(h), of which the values are known already: they are those of `known`. Gradients are
// as if it had been computed.
torch::Tensor known_sum(const torch::Tensor& x, const Linear& linear, const torch::Tensor& h,
                        const torch::Tensor& known);

}  // namespace zeroshard::models
