// Series of numbers, passed on to every sink that the configuration enables. Rank 0 makes one; the
// other ranks make none.
//
//   Monitor monitor(options);
//   monitor.write(samples, {{tags::kTrainLoss, loss}, {tags::kLearningRate, rate}});
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>

#include "zeroshard/monitor/csv.h"
#include "zeroshard/monitor/options.h"
#include "zeroshard/monitor/scalar.h"
#include "zeroshard/monitor/tensorboard.h"

namespace zeroshard {

// The names that DeepSpeed gives them. Their x axis is the number of samples trained on so far.
namespace tags {
inline constexpr std::string_view kTrainLoss = "Train/Samples/train_loss";
inline constexpr std::string_view kLearningRate = "Train/Samples/lr";
inline constexpr std::string_view kLossScale = "Train/Samples/loss_scale";  // fp16 only
// With wall_clock_breakdown.
inline constexpr std::string_view kForwardMs = "Train/Samples/elapsed_time_ms_forward";
inline constexpr std::string_view kBackwardMs = "Train/Samples/elapsed_time_ms_backward";
inline constexpr std::string_view kStepMs = "Train/Samples/elapsed_time_ms_step";
}  // namespace tags

class Monitor {
 public:
  // Opens the files, so that a wrong path is an error before the first step and not after it.
  explicit Monitor(const MonitorOptions& options);

  bool enabled() const noexcept { return tensorboard_.has_value() || csv_.has_value(); }

  // To all sinks, also where one of them fails; then throws what the first failure was.
  void write(std::int64_t step, std::span<const Scalar> scalars);
  void write(std::int64_t step, std::initializer_list<Scalar> scalars) {
    write(step, std::span<const Scalar>(scalars.begin(), scalars.size()));
  }

 private:
  std::optional<TensorBoardWriter> tensorboard_;
  std::optional<CsvWriter> csv_;
};

}  // namespace zeroshard
