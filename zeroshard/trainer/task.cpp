#include "zeroshard/trainer/task.h"

#include <variant>

#include "zeroshard/trainer/dense_task.h"
#include "zeroshard/trainer/gpt_task.h"

namespace zeroshard {

std::unique_ptr<TrainingTask> make_task(const TrainOptions& options, const ModelOptions& model) {
  if (const auto* dense = std::get_if<DenseOptions>(&model)) {
    return std::make_unique<DenseTask>(options, *dense);
  }
  return std::make_unique<GptTask>(options, std::get<GptOptions>(model));
}

}  // namespace zeroshard
