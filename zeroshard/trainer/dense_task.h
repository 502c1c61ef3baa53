// The smallest example there is: a dense network learns y = 2x + 1 from points that it makes
// itself.
#pragma once

#include "zeroshard/models/dense.h"
#include "zeroshard/trainer/synthetic.h"
#include "zeroshard/trainer/task.h"

namespace zeroshard {

class DenseTask final : public TrainingTask {
 public:
  DenseTask(const TrainOptions& options, const DenseOptions& model);

  std::int64_t sample_count() const override { return data_.sample_count(); }
  std::int64_t tokens_per_sample() const override { return 1; }
  torch::nn::Module& make_model(Device device) override;
  at::Tensor loss(std::span<const std::int64_t> samples) override;
  // What it predicts for some x, beside the truth.
  std::string sample(std::uint64_t seed, const GoOn& may_go_on) override;

 private:
  const DenseOptions model_options_;
  const LinearData data_;
  at::Device device_ = at::kCPU;
  Dense model_ = nullptr;
};

}  // namespace zeroshard
