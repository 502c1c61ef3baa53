// Trained weights as a folder: config.json and model.safetensors, in the model's dtype.
#pragma once

#include <string>

#include "zeroshard/checkpoint/model_folder.h"
#include "zeroshard/engine/engine.h"
#include "zeroshard/models/options.h"

namespace zeroshard {

// Collective; rank 0 writes, holding one unit at a time. The folder appears when it is complete.
void write_weights(Engine& engine, Communicator& comm, const ModelOptions& model,
                   const std::string& folder);

// Values of the parameters for Engine::fill_parameters: each rank reads its own elements only.
// A parameter that the folder lacks, or has in another shape, is a ConfigError.
ParameterFiller weights_from(const ModelFolder& folder);
void check_weights(const ModelFolder& folder, const Core& core);
void check_weights(const ModelFolder& folder, const torch::nn::Module& model);

}  // namespace zeroshard
