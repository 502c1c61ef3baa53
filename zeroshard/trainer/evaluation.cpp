#include "zeroshard/trainer/evaluation.h"

#include "zeroshard/base/check.h"

namespace zeroshard {

EvaluationPlan::EvaluationPlan(std::int64_t sample_count, const EvaluationShape& shape)
    : sample_count_(sample_count), shape_(shape) {
  ZS_CHECK_GE(sample_count_, 1);
  ZS_CHECK_GE(shape_.rows_per_rank, 1);
  ZS_CHECK(shape_.rank >= 0 && shape_.rank < shape_.world_size, "rank {} of {}", shape_.rank,
           shape_.world_size);
}

std::int64_t EvaluationPlan::batch_count() const {
  const std::int64_t rows = shape_.rows_per_rank * shape_.world_size;
  return (sample_count_ + rows - 1) / rows;
}

EvaluationBatch EvaluationPlan::batch(std::int64_t index) const {
  ZS_CHECK(index >= 0 && index < batch_count(), "batch {} of {}", index, batch_count());
  const std::int64_t first = (index * shape_.world_size + shape_.rank) * shape_.rows_per_rank;
  EvaluationBatch batch;
  for (std::int64_t row = first; row < first + shape_.rows_per_rank; ++row) {
    batch.samples.push_back(row % sample_count_);
    batch.counts.push_back(row < sample_count_ ? 1 : 0);
  }
  return batch;
}

}  // namespace zeroshard
