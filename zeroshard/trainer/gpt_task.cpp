#include "zeroshard/trainer/gpt_task.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "zeroshard/engine/tensors.h"
#include "zeroshard/models/generate.h"
#include "zeroshard/trainer/batch_memory.h"
#include "zeroshard/trainer/batches.h"
#include "zeroshard/trainer/evaluation.h"
#include "zeroshard/trainer/inputs.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kBytes = 256;
constexpr std::int64_t kSampleBytes = 240;
constexpr std::int64_t kSampleNumbers = 24;  // nobody reads them

std::span<std::int64_t> numbers(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<std::int64_t>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace

GptTask::GptTask(const TrainOptions& options, const GptOptions& model)
    : model_options_(model), files_(training_data(options, model)) {
  if (const auto data = evaluation_data(options, model)) evaluation_.emplace(*data);
}

torch::nn::Module& GptTask::make_model(Device device) {
  device_ = to_torch(device);
  model_ = Gpt(model_options_);
  return *model_;
}

GptTask::Batch GptTask::read(const TokenFiles& files, std::span<const std::int64_t> samples) const {
  const auto rows = static_cast<std::int64_t>(samples.size());
  const Batch batch{host_batch({2, rows, model_options_.sequence}, at::kLong, device_)};
  fill_batch(files, samples, numbers(batch.inputs()), numbers(batch.targets()));
  return batch;
}

at::Tensor GptTask::loss_of(const Batch& batch) {
  const Batch there{on_device(batch.tokens, device_)};
  return model_->loss(there.inputs(), there.targets());
}

at::Tensor GptTask::loss(std::span<const std::int64_t> samples) {
  return loss_of(read(files_, samples));
}

std::optional<double> GptTask::evaluate(Communicator& comm, std::int64_t rows_per_rank,
                                        const GoOn& may_go_on) {
  if (!evaluation_) return std::nullopt;
  const at::NoGradGuard no_grad;
  const EvaluationPlan plan(
      evaluation_->sample_count(),
      {.rows_per_rank = rows_per_rank, .rank = comm.rank(), .world_size = comm.world_size()});
  double sum = 0.0;
  for (std::int64_t i = 0; i < plan.batch_count(); ++i) {
    if (!may_go_on()) return std::nullopt;
    const EvaluationBatch rows = plan.batch(i);
    const Batch batch = read(*evaluation_, rows.samples);
    std::int64_t counted = 0;
    for (std::size_t row = 0; row < rows.counts.size(); ++row) {
      counted += rows.counts[row];
      if (rows.counts[row] == 0) batch.targets()[static_cast<std::int64_t>(row)] = kIgnoredTarget;
    }
    const at::Tensor mean = loss_of(batch);
    if (counted > 0) sum += mean.item<double>() * static_cast<double>(counted);
  }
  auto total = static_cast<float>(sum);
  comm.all_reduce({&total, 1, DType::fp32}, ReduceOp::sum, "evaluation").wait();
  return total / static_cast<double>(plan.sample_count());
}

std::string GptTask::sample(std::uint64_t seed, const GoOn& may_go_on) {
  const std::vector<std::int64_t> prompt{model_options_.vocabulary > '\n' ? '\n' : 0};
  const bool text = model_options_.vocabulary == kBytes;
  return text_of(generate(*model_, prompt,
                          {.count = text ? kSampleBytes : kSampleNumbers,
                           .temperature = 0.7,
                           .top_k = 40,
                           .seed = seed,
                           .may_go_on = may_go_on}),
                 model_options_.vocabulary);
}

std::string text_of(const std::vector<std::int64_t>& tokens, std::int64_t vocabulary) {
  std::string text;
  for (const std::int64_t token : tokens) {
    if (vocabulary != kBytes) {
      text += fmt::format("{} ", token);
    } else if (token == '\n' || token == '\t' || (token >= ' ' && token < 127)) {
      text += static_cast<char>(token);
    } else {
      text += fmt::format("\\x{:02x}", token);
    }
  }
  return text;
}

}  // namespace zeroshard
