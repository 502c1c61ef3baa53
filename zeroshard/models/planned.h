// Models as a plan sees them, as people name them.
#pragma once

#include <memory>
#include <string>

#include "zeroshard/models/hf_model.h"
#include "zeroshard/models/options.h"
#include "zeroshard/planner/planned_model.h"

namespace zeroshard {

std::unique_ptr<PlannedModel> planned_model(const ModelOptions& options);

// "gpt:layers=12,...", or a config.json (or its folder) of ours or of HuggingFace's. Adapters and
// the sequence are for those of HuggingFace; for ours the text says what is to be said. Throws
// ConfigError.
std::unique_ptr<PlannedModel> read_planned_model(const std::string& text,
                                                 const HfModelOptions& options = {});

}  // namespace zeroshard
