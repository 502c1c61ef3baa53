// A model of HuggingFace's as a plan sees it: its units as the Python package finds them, and its
// operators as transformers writes them.
#pragma once

#include <cstdint>
#include <memory>

#include "zeroshard/models/transformer_shape.h"
#include "zeroshard/planner/planned_model.h"

namespace zeroshard {

struct HfModelOptions {
  // Adapters of PEFT's on queries and values, and all else frozen; 0: everything trains.
  std::int64_t lora_rank = 0;
  bool checkpoint_activations = false;
  std::int64_t sequence = 0;  // tokens of a sample; 0: the longest
};

std::unique_ptr<PlannedModel> hf_model(const TransformerShape& shape,
                                       const HfModelOptions& options = {});

}  // namespace zeroshard
