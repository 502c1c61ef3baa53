// Batch sizes and data order of a training run.
#pragma once

#include <cstdint>
#include <optional>

namespace zeroshard {

// The batch triad: train = micro_per_rank * accumulation * ranks. Unset parts are derived.
struct BatchOptions {
  std::optional<std::int64_t> train;           // train_batch_size
  std::optional<std::int64_t> micro_per_rank;  // train_micro_batch_size_per_gpu
  std::optional<std::int64_t> accumulation;    // gradient_accumulation_steps
  bool drop_last = false;                      // dataloader_drop_last
};

}  // namespace zeroshard
