#include "tests/engine/random_plan.h"

#include <fmt/format.h>

namespace zeroshard::test {
namespace {

template <typename T>
T one_of(std::mt19937_64& random, std::initializer_list<T> choices) {
  return *(choices.begin() + static_cast<std::ptrdiff_t>(random() % choices.size()));
}

OptimizerOptions random_optimizer(std::mt19937_64& random) {
  const double decay = one_of(random, {0.0, 0.1});
  switch (random() % 5) {
    case 0:
      return SgdOptions{.lr = 0.05, .momentum = one_of(random, {0.0, 0.9}), .weight_decay = decay};
    case 1: return LionOptions{.lr = 1e-3, .weight_decay = decay};
    case 2: return AdagradOptions{.lr = 0.02, .weight_decay = decay};
    default: return AdamOptions{.lr = 1e-2, .weight_decay = decay};
  }
}

}  // namespace

RunPlan random_numbers(std::mt19937_64& random) {
  RunPlan plan;
  plan.ranks = one_of(random, {1, 2, 3, 4});
  plan.steps = 4;
  plan.shape.width = one_of<std::int64_t>(random, {8, 17, 24});
  plan.shape.blocks = one_of(random, {1, 2, 4});
  plan.shape.checkpoint = random() % 4 == 0;
  PrecisionOptions& precision = plan.options.precision;
  const int dtype = one_of(random, {0, 1, 2});
  precision.bf16.enabled = dtype == 1;
  precision.fp16.enabled = dtype == 2;
  precision.fp16.initial_scale_power = one_of<std::int64_t>(random, {8, 16});
  precision.gradient_clipping = one_of(random, {0.0, 0.05, 1.0, 100.0});
  if (random() % 4 == 0) precision.communication_data_type = DType::fp32;
  if (random() % 8 == 0) precision.prescale_gradients = true;
  if (random() % 8 == 0) precision.gradient_predivide_factor = 2.0;
  plan.options.accumulation_steps = one_of<std::int64_t>(random, {1, 1, 2, 3});
  plan.options.parameter_groups = {random_optimizer(random)};
  plan.options.threads = 1;
  return plan;
}

RunPlan with_random_placement(RunPlan plan, std::mt19937_64& random) {
  ZeroOptions& zero = plan.options.zero;
  zero.reduce_bucket_numel = one_of<std::int64_t>(random, {0, 1000, 5000, 500'000'000});
  zero.overlap_comm = random() % 2 == 0;
  zero.prefetch_numel = one_of<std::int64_t>(random, {0, 1, 2000, 50'000'000});
  zero.persistence_numel = one_of<std::int64_t>(random, {0, 300, 2000});
  zero.max_live_numel = one_of<std::int64_t>(random, {0, 3000, 1'000'000'000});
  return plan;
}

std::string describe(const RunPlan& plan) {
  const ZeroOptions& zero = plan.options.zero;
  return fmt::format(
      "stage {} ranks {} dtype {} travels as {} prescale {} predivide {} scale 2^{} accumulation "
      "{} "
      "clip {} optimizer {} width {} blocks {} "
      "checkpoint {} bucket {} overlap {} prefetch {} persistence {} live {}",
      zero.stage, plan.ranks, name_of(plan.options.precision.model()),
      name_of(plan.options.precision.communication()), plan.options.precision.prescale_gradients,
      plan.options.precision.gradient_predivide_factor,
      plan.options.precision.fp16.initial_scale_power, plan.options.accumulation_steps,
      plan.options.precision.gradient_clipping, plan.options.parameter_groups.front().index(),
      plan.shape.width, plan.shape.blocks, plan.shape.checkpoint, zero.reduce_bucket_numel,
      zero.overlap_comm.value_or(false), zero.prefetch_numel, zero.persistence_numel,
      zero.max_live_numel);
}

}  // namespace zeroshard::test
