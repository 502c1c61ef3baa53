#include "zeroshard/trainer/batches.h"

#include <optional>

#include <fmt/format.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

void check_shape(const BatchShape& shape) {
  ZS_CHECK_GE(shape.micro_per_rank, 1);
  ZS_CHECK_GE(shape.accumulation, 1);
  ZS_CHECK(shape.rank >= 0 && shape.rank < shape.world_size, "rank {} of {}", shape.rank,
           shape.world_size);
}

}  // namespace

BatchPlan::BatchPlan(std::int64_t sample_count, const BatchShape& shape,
                     const StreamOptions& stream)
    : sample_count_(sample_count), shape_(shape), drop_last_(stream.drop_last) {
  check_shape(shape_);
  ZS_CHECK_GE(sample_count_, 1);
  if (drop_last_ && sample_count_ < shape_.global()) {
    throw ConfigError(
        {.what = "an epoch does not fill one step, and the last, incomplete one is to be dropped",
         .value = fmt::format("{} samples, {} in a step", sample_count_, shape_.global()),
         .remedy = "make train_batch_size smaller, or set dataloader_drop_last to false"});
  }
  go_on_from(stream.start);
}

void BatchPlan::go_on_from(const DataPosition& position) {
  ZS_CHECK_GE(position.samples, 0);
  position_ = position;
  // A position that was saved with another batch size may have too little before its epoch's end.
  if (drop_last_ && left_in_epoch() < shape_.global()) position_.samples += left_in_epoch();
}

std::vector<std::int64_t> BatchPlan::samples_of(std::int64_t micro_step) const {
  ZS_CHECK(micro_step >= 0 && micro_step < shape_.accumulation, "micro-step {} of {}", micro_step,
           shape_.accumulation);
  const std::int64_t first =
      position_.samples + (micro_step * shape_.world_size + shape_.rank) * shape_.micro_per_rank;
  std::vector<std::int64_t> samples;
  samples.reserve(static_cast<std::size_t>(shape_.micro_per_rank));
  std::optional<SampleOrder> order;
  for (std::int64_t at = first; at < first + shape_.micro_per_rank; ++at) {
    const std::int64_t in_epoch = at % sample_count_;
    if (!order || in_epoch == 0) {
      order.emplace(sample_count_, Shuffle{position_.seed, at / sample_count_});
    }
    samples.push_back(order->sample_at(in_epoch));
  }
  return samples;
}

void BatchPlan::advance(std::int64_t steps) {
  ZS_CHECK_GE(steps, 0);
  const std::int64_t left = left_in_epoch();
  const std::int64_t steps_left = left / shape_.global();
  if (!drop_last_ || steps < steps_left) {
    position_.samples += steps * shape_.global();
    return;
  }
  // Every epoch from the next one on begins with a step.
  const std::int64_t beyond = steps - steps_left;
  position_.samples += left + beyond / steps_per_epoch() * sample_count_ +
                       beyond % steps_per_epoch() * shape_.global();
}

std::int64_t BatchPlan::left_in_epoch() const {
  return sample_count_ - position_.samples % sample_count_;
}

std::int64_t BatchPlan::steps_per_epoch() const {
  const std::int64_t global = shape_.global();
  return drop_last_ ? sample_count_ / global : (sample_count_ + global - 1) / global;
}

void fill_batch(const TokenFiles& files, std::span<const std::int64_t> samples,
                std::span<std::int64_t> inputs, std::span<std::int64_t> targets) {
  const auto length = static_cast<std::size_t>(files.sequence_length());
  ZS_CHECK_EQ(inputs.size(), samples.size() * length);
  ZS_CHECK_EQ(targets.size(), samples.size() * length);
  for (std::size_t row = 0; row < samples.size(); ++row) {
    files.read_sample(samples[row], inputs.subspan(row * length, length),
                      targets.subspan(row * length, length));
  }
}

}  // namespace zeroshard
