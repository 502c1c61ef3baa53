// The models train on the engine, and stages change nothing: the same bits.
#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/models/model_run.h"
#include "zeroshard/comm/thread.h"
#include "zeroshard/models/dense.h"
#include "zeroshard/models/initializer.h"
#include "zeroshard/models/shapes.h"

namespace zeroshard::test {
namespace {

class GptStages : public testing::TestWithParam<GptOptions> {};

TEST_P(GptStages, AreEqual) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const GptTrace expected = train_gpt({.model = GetParam(), .stage = 0, .dtype = dtype});
    EXPECT_NEAR(expected.losses[0], std::log(37.0), 0.1);  // it starts knowing nothing
    for (const int stage : {1, 2, 3}) {
      const GptTrace found = train_gpt({.model = GetParam(), .stage = stage, .dtype = dtype});
      EXPECT_EQ(found.losses, expected.losses) << stage;
      EXPECT_EQ(found.norms, expected.norms) << stage;
      EXPECT_EQ(found.weights, expected.weights) << stage;
      EXPECT_EQ(found.sampled, expected.sampled) << stage;
    }
  }
}

TEST_P(GptStages, InitAndPlainStartTheSame) {
  const GptTrace sharded = train_gpt({.model = GetParam(), .stage = 3, .init = true});
  const GptTrace plain = train_gpt({.model = GetParam(), .stage = 3, .init = false});
  EXPECT_EQ(sharded, plain);
}

TEST_P(GptStages, CheckpointedActivationsGiveTheSame) {
  GptOptions checkpointed = GetParam();
  checkpointed.checkpoint_activations = true;
  for (const int stage : {0, 3}) {
    EXPECT_EQ(train_gpt({.model = checkpointed, .stage = stage}),
              train_gpt({.model = GetParam(), .stage = stage}));
  }
}

TEST_P(GptStages, TheFirstWeightsDoNotDependOnTheRanks) {
  const GptTrace one = train_gpt({.model = GetParam(), .stage = 3, .ranks = 1, .steps = 0});
  const GptTrace three = train_gpt({.model = GetParam(), .stage = 3, .ranks = 3, .steps = 0});
  EXPECT_EQ(one, three);
  EXPECT_EQ(static_cast<std::int64_t>(one.weights.size()), parameter_count(GetParam()));
}

GptOptions tied(GptOptions options) {
  options.tied_head = true;
  return options;
}

INSTANTIATE_TEST_SUITE_P(Kinds, GptStages,
                         testing::Values(gpt2_options(), llama_options(), tied(gpt2_options()),
                                         tied(llama_options())));

TEST(Gpt, LearnsASequenceByHeart) {
  GptOptions options = llama_options();
  Gpt model = filled_gpt(options);
  EngineOptions engine_options = small_engine({.model = options, .stage = 3});
  run_ranks(1, {}, [&](Communicator& comm) {
    Engine engine(model, engine_options, comm);
    const at::Tensor batch = tokens_of(1, options.sequence + 1, options.vocabulary, 4);
    double loss = 0;
    for (int step = 0; step < 60; ++step) {
      const at::Tensor now =
          model->loss(batch.narrow(1, 0, options.sequence), batch.narrow(1, 1, options.sequence));
      engine.backward(now);
      engine.step();
      loss = now.item<double>();
    }
    EXPECT_LT(loss, 0.05);
  });
}

// Example 1: y = 2x + 1, one linear layer, Adam.
TEST(Dense, LearnsALine) {
  for (const int stage : {0, 2, 3}) {
    run_ranks(2, {}, [&](Communicator& comm) {
      const DenseOptions options;
      Dense model(options);
      fill_parameters(*model, initializer(options, 1));
      EngineOptions engine_options = small_engine({.stage = stage});
      engine_options.parameter_groups = {AdamOptions{.lr = 2e-2}};
      Engine engine(model, engine_options, comm);
      const at::Tensor x = at::linspace(-1, 1, 64).reshape({64, 1}).narrow(0, comm.rank() * 32, 32);
      for (int step = 0; step < 500; ++step) {
        engine.backward(model->loss(x, 2 * x + 1));
        engine.step();
      }
      std::vector<float> found;
      engine.visit_parameters(
          [&](const std::string&, const at::Tensor& full) { found.push_back(full.item<float>()); });
      EXPECT_NEAR(found.at(0), 2, 1e-2);
      EXPECT_NEAR(found.at(1), 1, 1e-2);
    });
  }
}

TEST(Dense, ForwardAndLossByHand) {
  const DenseOptions options{.inputs = 2, .outputs = 1, .hidden = {2}};
  Dense model(options);
  const at::NoGradGuard no_grad;
  model->layers[0]->weight.copy_(at::tensor({1.0, -1.0, 2.0, 0.5}).reshape({2, 2}));
  model->layers[0]->bias.copy_(at::tensor({0.5, -4.0}));
  model->layers[1]->weight.copy_(at::tensor({3.0, 7.0}).reshape({1, 2}));
  model->layers[1]->bias.copy_(at::tensor({-0.25}));
  const at::Tensor x = at::tensor({2.0, 1.0, -1.0, 1.0}).reshape({2, 2});
  // (2, 1): relu(1.5, 0.5) -> 4.5 + 3.5 - 0.25. (-1, 1): relu(-1.5, -5.5) -> -0.25.
  const at::Tensor y = model->forward(x);
  EXPECT_FLOAT_EQ(y[0].item<float>(), 7.75F);
  EXPECT_FLOAT_EQ(y[1].item<float>(), -0.25F);
  EXPECT_FLOAT_EQ(model->loss(x, at::tensor({7.0, 0.25}).reshape({2, 1})).item<float>(),
                  (0.75F * 0.75F + 0.25F) / 2);
}

}  // namespace
}  // namespace zeroshard::test
