// The same model once more, in double precision and from other operations than the real one's:
// attention as a masked softmax over explicit scores, rotation as a product of complex numbers,
// norms and gelu from their formulas. Slow and plain, to compare with.
#pragma once

#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include "zeroshard/models/gpt.h"

namespace zeroshard::test {

// By name, as leaves that require a gradient.
using Weights = std::map<std::string, at::Tensor>;
Weights double_weights(GptImpl& model);

at::Tensor reference_logits(const Weights& weights, const GptOptions& options,
                            const at::Tensor& tokens);
// Mean over the targets that are not -100.
at::Tensor reference_loss(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace zeroshard::test
