// First weights as a function of (parameter name, element, seed): any number of ranks and any stage
// start with the same model, and each rank computes its own elements only.
//
//   engine.fill_parameters(initializer(options, seed));    // or without an engine:
//   fill_parameters(*model, initializer(options, seed));
#pragma once

#include <cstdint>

#include <torch/nn/module.h>

#include "zeroshard/engine/empty_parameter.h"
#include "zeroshard/models/options.h"

namespace zeroshard {

// GPT-2's: matrices and tables normal with deviation 0.02, those that write to the residual
// 0.02 / sqrt(2 * layers); biases 0, norms 1.
ParameterFiller gpt_initializer(const GptOptions& options, std::uint64_t seed);
// PyTorch's of a linear layer: uniform in +-1/sqrt(inputs), weights and biases.
ParameterFiller dense_initializer(const DenseOptions& options, std::uint64_t seed);
ParameterFiller initializer(const ModelOptions& options, std::uint64_t seed);

// For a model without an engine.
void fill_parameters(torch::nn::Module& model, const ParameterFiller& fill);

}  // namespace zeroshard
