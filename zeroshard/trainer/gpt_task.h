// A language model on token files.
#pragma once

#include <optional>
#include <vector>

#include "zeroshard/models/gpt.h"
#include "zeroshard/trainer/task.h"
#include "zeroshard/trainer/token_file.h"

namespace zeroshard {

class GptTask final : public TrainingTask {
 public:
  GptTask(const TrainOptions& options, const GptOptions& model);

  std::int64_t sample_count() const override { return files_.sample_count(); }
  std::int64_t tokens_per_sample() const override { return model_options_.sequence; }
  torch::nn::Module& make_model(Device device) override;
  at::Tensor loss(std::span<const std::int64_t> samples) override;
  std::optional<double> evaluate(Communicator& comm, std::int64_t rows_per_rank,
                                 const GoOn& may_go_on) override;
  std::string sample(std::uint64_t seed, const GoOn& may_go_on) override;

 private:
  struct Batch {
    at::Tensor tokens;  // [2, rows, length]: one tensor, so that one copy brings it to the device

    at::Tensor inputs() const { return tokens[0]; }
    at::Tensor targets() const { return tokens[1]; }
  };
  Batch read(const TokenFiles& files, std::span<const std::int64_t> samples) const;
  at::Tensor loss_of(const Batch& batch);

  const GptOptions model_options_;
  const TokenFiles files_;
  std::optional<TokenFiles> evaluation_;
  at::Device device_ = at::kCPU;
  Gpt model_ = nullptr;
};

// Tokens as text where they are bytes, else their numbers. What a terminal would not show is
// escaped.
std::string text_of(const std::vector<std::int64_t>& tokens, std::int64_t vocabulary);

}  // namespace zeroshard
