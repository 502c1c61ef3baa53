// The rows of an evaluation: every sample once, in the data's own order. All ranks make the same
// number of batches of the same size, because collectives need all of them; rows that are too many
// are filled with samples from the beginning and do not count.
//
//   const EvaluationPlan plan(files.sample_count(), {.rows_per_rank = 8, .rank = rank, ...});
//   for (std::int64_t batch = 0; batch < plan.batch_count(); ++batch) {
//     const EvaluationBatch rows = plan.batch(batch);
//     fill_batch(files, rows.samples, inputs, targets);
//     sum += the losses of rows where rows.counts[row] is 1
//   }
//   mean = sum over all ranks / plan.sample_count()      // whatever the number of ranks
#pragma once

#include <cstdint>
#include <vector>

namespace zeroshard {

struct EvaluationShape {
  std::int64_t rows_per_rank = 1;
  int rank = 0;
  int world_size = 1;
};

struct EvaluationBatch {
  std::vector<std::int64_t> samples;
  std::vector<std::uint8_t> counts;  // by row: 1, or 0 for a row that only fills the batch
};

class EvaluationPlan {
 public:
  EvaluationPlan(std::int64_t sample_count, const EvaluationShape& shape);

  std::int64_t sample_count() const { return sample_count_; }
  // The same on all ranks.
  std::int64_t batch_count() const;
  // This rank's rows.
  EvaluationBatch batch(std::int64_t index) const;

 private:
  std::int64_t sample_count_;
  EvaluationShape shape_;
};

}  // namespace zeroshard
