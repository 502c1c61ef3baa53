// What a run reads, chosen and checked without torch: by `zeroshard` before a rank is started, and
// by the ranks, with the same sentences.
#pragma once

#include <optional>

#include "zeroshard/models/options.h"
#include "zeroshard/trainer/options.h"

namespace zeroshard {

// The model that is asked for; without one that of `init` or of the checkpoint to resume, else gpt
// with its defaults.
ModelOptions model_of(const TrainOptions& options);

// Throw ConfigError where there is no data, or none that the model can read.
DataOptions training_data(const TrainOptions& options, const GptOptions& model);
std::optional<DataOptions> evaluation_data(const TrainOptions& options, const GptOptions& model);
// A dense network makes its own.
void refuse_data(const TrainOptions& options, const DenseOptions& model);

// The model in a folder, which must be one that goes on from a text; and a text to go on from.
GptOptions generating_model(const GenerateOptions& options);

}  // namespace zeroshard
