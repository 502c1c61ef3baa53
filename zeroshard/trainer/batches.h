// Which samples a rank takes in each micro-step. The samples form one endless stream, epoch after
// epoch, each in its own order; a step takes the next `global` ones of it. So a step's samples
// depend on the position in the stream and the global batch alone, whatever the number of ranks.
//
//   BatchPlan plan(files.sample_count(), {.micro_per_rank = 4, .rank = rank, .world_size = ranks},
//                  {.drop_last = false, .start = {.samples = 0, .seed = 42}});
//   for (int step = 0; step < steps; ++step, plan.advance()) {
//     for (int micro = 0; micro < accumulation; ++micro) {
//       fill_batch(files, plan.samples_of(micro), inputs, targets);
//     }
//   }
//   save(plan.position());     // a plan made with it goes on as this one would
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "zeroshard/trainer/sample_order.h"
#include "zeroshard/trainer/token_file.h"

namespace zeroshard {

struct BatchShape {
  std::int64_t micro_per_rank = 1;
  std::int64_t accumulation = 1;
  int rank = 0;
  int world_size = 1;

  std::int64_t global() const { return micro_per_rank * accumulation * world_size; }
};

// How much of the stream is behind us. It means the same whatever the batch size and the number of
// ranks, as long as the data is the same.
struct DataPosition {
  std::int64_t samples = 0;
  std::uint64_t seed = 0;

  bool operator==(const DataPosition&) const = default;
};

struct StreamOptions {
  // An epoch's end that does not fill a step is passed over; else the step goes on into the next
  // epoch.
  bool drop_last = false;
  DataPosition start = {};
};

class BatchPlan {
 public:
  // Throws ConfigError where drop_last would leave no step at all.
  BatchPlan(std::int64_t sample_count, const BatchShape& shape, const StreamOptions& stream);

  // Of the current step, this rank's: rows (micro_step * world_size + rank) * micro_per_rank and
  // following of the global batch.
  std::vector<std::int64_t> samples_of(std::int64_t micro_step) const;

  // The stream is at this position, as a plan that is made with it.
  void go_on_from(const DataPosition& position);
  // On to the next step, or many at once.
  void advance(std::int64_t steps = 1);

  // Where the current step begins; at an epoch's end with drop_last, already in the next epoch.
  const DataPosition& position() const { return position_; }
  std::int64_t epoch() const { return position_.samples / sample_count_; }

  // Full steps of an epoch, and without drop_last the one that reaches into the next as well.
  std::int64_t steps_per_epoch() const;

 private:
  std::int64_t left_in_epoch() const;

  std::int64_t sample_count_;
  BatchShape shape_;
  bool drop_last_;
  DataPosition position_;
};

// One row of sequence_length tokens per sample; targets are the inputs shifted by one.
void fill_batch(const TokenFiles& files, std::span<const std::int64_t> samples,
                std::span<std::int64_t> inputs, std::span<std::int64_t> targets);

}  // namespace zeroshard
