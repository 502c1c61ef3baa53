// Trained weights as a folder: config.json and model.safetensors, in the model's dtype.
#pragma once

#include <string>

#include "zeroshard/checkpoint/state_files.h"
#include "zeroshard/engine/engine.h"
#include "zeroshard/models/options.h"

namespace zeroshard {

// Collective; rank 0 writes, holding one unit at a time. The folder appears when it is complete.
void write_weights(Engine& engine, Communicator& comm, const ModelOptions& model,
                   const std::string& folder);

// Values of the parameters for Engine::fill_parameters: each rank reads its own elements only, and
// holds a chunk of what it reads. The files must have passed check_weights (weight_files.h).
ParameterFiller weights_from(const StateFiles& files);

}  // namespace zeroshard
