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

  // Asked on all ranks together, before each part of what may take long; false ends it there.
  using GoOn = std::function<bool()>;

  // The mean loss over the evaluation data, the same whatever the number of ranks; nothing where
  // there is none, or it was not to go on. Collective.
  virtual std::optional<double> evaluate(Communicator&, std::int64_t /*rows_per_rank*/,
                                         const GoOn& /*may_go_on*/) {
    return std::nullopt;
  }
  // Something to show at the end, as far as it came. Collective.
  virtual std::string sample(std::uint64_t /*seed*/, const GoOn& /*may_go_on*/) { return {}; }
};

// Opens the data: what is wrong with it is a ConfigError.
std::unique_ptr<TrainingTask> make_task(const TrainOptions& options, const ModelOptions& model);

}  // namespace zeroshard
