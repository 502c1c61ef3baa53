// What is trained on what: a model, its data, and how the two meet. The training loop knows no
// more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/device.h"
#include "zeroshard/models/options.h"
#include "zeroshard/trainer/options.h"

namespace zeroshard {

class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  virtual std::int64_t sample_count() const = 0;
  // What the speed is counted in.
  virtual std::int64_t tokens_per_sample() const = 0;

  // Makes the model, where parameters are to be kept sharded under the caller's Init.
  virtual torch::nn::Module& make_model(Device device) = 0;
  // Of these samples, to be differentiated.
  virtual at::Tensor loss(std::span<const std::int64_t> samples) = 0;

  // The mean loss over the evaluation data, the same whatever the number of ranks; nothing where
  // there is none. Collective.
  virtual std::optional<double> evaluate(Communicator&, std::int64_t /*rows_per_rank*/) {
    return std::nullopt;
  }
  // Something to show at the end. Collective.
  virtual std::string sample(std::uint64_t /*seed*/) { return {}; }
};

// Opens the data: what is wrong with it is a ConfigError.
std::unique_ptr<TrainingTask> make_task(const TrainOptions& options, const ModelOptions& model);

}  // namespace zeroshard
