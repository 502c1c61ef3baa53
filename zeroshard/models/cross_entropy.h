// The mean loss of predicted tokens, in the memory of the logits.
//
// With a vocabulary of 16 thousand and more the logits are the largest tensor of a model. Torch's
// cross entropy makes three more of that size on the way to their gradient; this one turns the
// logits into their gradient in place, some rows at a time.
//
// 16-bit logits stay 16 bits long: each part is widened to fp32 for its softmax, and what comes
// back is their gradient, rounded once. So a GPU holds them in half the memory, and the products
// of the head are not cut. On a CPU the caller widens them first, as parity with torch asks for.
#pragma once

#include <cstdint>

#include <torch/types.h>

namespace zeroshard::models {

// `logits` [rows, vocabulary] are overwritten: nobody else may hold them. Rows whose target is
// `ignored` count for nothing; NaN where all are ignored, as in torch. The loss is fp32.
torch::Tensor consuming_cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets,
                                      std::int64_t ignored);

}  // namespace zeroshard::models
