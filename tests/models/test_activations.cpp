// What is counted with sizes alone is what torch's allocator has given out: in forward, in
// backward, and what is kept in between.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "zeroshard/device/memory_count.h"
#include "zeroshard/device/torch_cpu_memory.h"
#include "zeroshard/models/activations.h"
#include "zeroshard/models/gpt.h"
#include "zeroshard/models/shapes.h"
#include "zeroshard/models/spec.h"
#include "zeroshard/models/widened.h"

namespace zeroshard {
namespace {

struct Measured {
  std::int64_t kept = 0, forward = 0, backward = 0;
};

// The second of two steps: the first also makes what operators keep for themselves.
Measured measure(const GptOptions& options, std::int64_t micro_batch, at::ScalarType dtype) {
  Gpt model(options);
  for (torch::Tensor& parameter : model->parameters())
    parameter.set_data(at::randn(parameter.sizes()).mul_(0.02).to(dtype));
  MemoryCount& count = cpu_memory_count();
  Measured measured;
  for (int step = 0; step < 2; ++step) {
    model->zero_grad();
    const std::int64_t before = count.use().now;
    at::Tensor batch =
        at::randint(options.vocabulary, {2, micro_batch, options.sequence}, at::kLong);
    count.forget_peak();
    at::Tensor loss = model->loss(batch[0], batch[1]);
    batch.reset();
    measured.forward = count.use().peak - before;
    measured.kept = count.use().now - before;
    count.forget_peak();
    loss.backward();
    measured.backward = count.use().peak - before;
  }
  return measured;
}

// Gradients stay, so what a unit's backward has made is there in the next one's.
Measured expected(const GptOptions& options, const ActivationQuery& with) {
  const ModelActivations all = activations_of(options, with);
  std::vector<std::int64_t> gradients;
  for (const UnitShapes& unit : unit_shapes(options)) {
    std::int64_t bytes = 0;
    for (const ParameterShape& parameter : unit.parameters) bytes += parameter.numel() * with.width;
    if (!unit.parameters.empty()) gradients.push_back(bytes);
  }
  Measured sum;
  std::int64_t kept = all.batch;
  for (const UnitActivations& use : all.uses) {
    sum.forward = std::max(sum.forward, kept + use.forward);
    kept += use.kept;
  }
  sum.kept = kept;
  for (auto use = all.uses.rbegin(); use != all.uses.rend(); ++use) {
    kept -= use->kept;
    if (use->unit == 0) kept -= all.uses.back().left;  // added in place
    sum.backward = std::max(sum.backward, kept + use->backward);
    kept += gradients.at(use->unit) + use->left;
  }
  return sum;
}

class Activations : public testing::TestWithParam<std::tuple<const char*, at::ScalarType>> {};

TEST_P(Activations, AreWhatTorchTakes) {
  keep_torch_cpu_memory();
  at::set_num_threads(1);
  const auto [spec, dtype] = GetParam();
  const auto options = std::get<GptOptions>(read_model(spec));
  const int width = dtype == at::kFloat ? 4 : 2;
  const bool widens = models::widens(at::empty({1}, dtype));
  for (const std::int64_t micro_batch : {1, 4}) {
    const Measured got = measure(options, micro_batch, dtype);
    const Measured want = expected(options, {.micro_batch = micro_batch,
                                             .width = width,
                                             .device = {.accelerator = false, .widens = widens},
                                             .holds_gradients = true});
    const auto expect_close = [&](std::int64_t measured, std::int64_t counted, const char* what) {
      // A library's own scratch memory depends on the CPU: one with matrix instructions for 16-bit
      // numbers packs their operands first.
      const double scratch = (width == 2 ? 640.0 : 256.0) * 1024;
      const double slack = std::max(0.01 * static_cast<double>(measured), scratch);
      EXPECT_NEAR(static_cast<double>(counted), static_cast<double>(measured), slack)
          << what << ", micro-batch " << micro_batch;
    };
    expect_close(got.kept, want.kept, "kept");
    expect_close(got.forward, want.forward, "forward");
    expect_close(got.backward, want.backward, "backward");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, Activations,
    testing::Combine(testing::Values("gpt:layers=3,hidden=256,heads=4,seq=256,vocab=5000",
                                     "gpt:layers=2,hidden=256,heads=4,seq=512,vocab=500,tied=true",
                                     "gpt:layers=3,hidden=256,heads=4,seq=256,vocab=3000,positions="
                                     "rotary,norm=rms,activation=swiglu",
                                     "gpt:layers=3,hidden=256,heads=4,kv_heads=2,seq=256,vocab=300,"
                                     "positions=rotary,norm=rms,activation=swiglu"),
                     testing::Values(at::kFloat, at::kBFloat16, at::kHalf)));

}  // namespace
}  // namespace zeroshard
