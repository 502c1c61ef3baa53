#include "zeroshard/trainer/dense_task.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "zeroshard/engine/tensors.h"
#include "zeroshard/trainer/batch_memory.h"
#include "zeroshard/trainer/inputs.h"

namespace zeroshard {
namespace {

std::span<float> floats(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace

DenseTask::DenseTask(const TrainOptions& options, const DenseOptions& model)
    : model_options_(model), data_({.seed = options.seed}) {
  refuse_data(options, model);
}

torch::nn::Module& DenseTask::make_model(Device device) {
  device_ = to_torch(device);
  model_ = Dense(model_options_);
  return *model_;
}

at::Tensor DenseTask::loss(std::span<const std::int64_t> samples) {
  const auto rows = static_cast<std::int64_t>(samples.size());
  const at::Tensor points = host_batch({2, rows, 1}, at::kFloat, device_);
  data_.fill(samples, floats(points[0]), floats(points[1]));
  const at::Tensor there = on_device(points, device_);
  return model_->loss(there[0], there[1]);
}

std::string DenseTask::sample(std::uint64_t, const GoOn&) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::empty({2, 1});
  floats(x)[0] = 0.0F;
  floats(x)[1] = 1.0F;
  const at::Tensor y = model_->forward(x.to(device_)).to(at::kCPU, at::kFloat);
  const auto at = [&](int i) { return y[i][0].item<double>(); };
  return fmt::format("f(0) = {:.3f} (the truth is 1), f(1) = {:.3f} (the truth is 3)\n", at(0),
                     at(1));
}

}  // namespace zeroshard
