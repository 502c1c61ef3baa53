// Hyper-parameters belong to parameters, as in PyTorch: groups, learning rates that change, and
// parameters that got no gradient.
#include <cmath>

#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include "tests/engine_account/account_support.h"
#include "tests/engine_account/linear_model.h"
#include "zeroshard/base/error.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard::test {
namespace {

// w0 of each unit and the root decay; w1 does not, and learns more slowly.
bool decays(std::size_t parameter) { return parameter % 2 == 0; }
int group_of(const std::string& name) { return name.ends_with("w1") ? 1 : 0; }

EngineOptions options_for(int stage, DType dtype) {
  EngineOptions options = small_plan(stage, 2, dtype).options;
  options.precision.gradient_clipping = 0.0;
  options.precision.communication_data_type = DType::fp32;
  options.precision.grad_accum_dtype = DType::fp32;
  options.parameter_groups = {AdamOptions{.lr = 1e-2, .weight_decay = 0.1},
                              AdamOptions{.lr = 2e-3}};
  options.parameter_group_of = group_of;
  return options;
}

// Which parameters get a gradient: 1 never does, 2 on rank 1 alone, 3 in even steps.
bool used(std::size_t parameter, int rank, int step) {
  if (parameter == 1) return false;
  if (parameter == 2) return rank == 1;
  return parameter != 3 || step % 2 == 0;
}

// Numbers that bf16 holds exactly.
std::vector<torch::Tensor> numbers_for(int rank, int step) {
  std::vector<torch::Tensor> numbers = linear_numbers(rank, step);
  for (std::size_t p = 0; p < kLinearParameters; ++p) {
    numbers[p] =
        used(p, rank, step) ? numbers[p].to(torch::kBFloat16).to(torch::kFloat) : torch::Tensor();
  }
  return numbers;
}

double rate_at(int step) { return step < 3 ? 1e-2 : 5e-3; }

// PyTorch's own AdamW over five tensors, with the mean of the ranks' gradients.
class Peer {
 public:
  Peer() {
    for (std::size_t p = 0; p < kLinearParameters; ++p) {
      weights_.push_back(torch::ones({linear_numel(p)}).set_requires_grad(true));
    }
    std::vector<torch::optim::OptimizerParamGroup> groups;
    for (const bool decaying : {true, false}) {
      std::vector<torch::Tensor> members;
      for (std::size_t p = 0; p < kLinearParameters; ++p) {
        if (decays(p) == decaying) members.push_back(weights_[p]);
      }
      groups.emplace_back(members, std::make_unique<torch::optim::AdamWOptions>(
                                       torch::optim::AdamWOptions(decaying ? 1e-2 : 2e-3)
                                           .weight_decay(decaying ? 0.1 : 0.0)));
    }
    adam_ = std::make_unique<torch::optim::AdamW>(groups);
  }

  void step(int ranks, int step) {
    static_cast<torch::optim::AdamWOptions&>(adam_->param_groups()[0].options()).lr(rate_at(step));
    adam_->zero_grad();
    for (std::size_t p = 0; p < kLinearParameters; ++p) {
      torch::Tensor sum;
      for (int rank = 0; rank < ranks; ++rank) {
        const torch::Tensor part = numbers_for(rank, step)[p];
        if (part.defined()) sum = sum.defined() ? sum + part : part;
      }
      if (sum.defined()) weights_[p].mutable_grad() = sum / ranks;
    }
    adam_->step();
  }

  const torch::Tensor& weight(std::size_t parameter) const { return weights_[parameter]; }

 private:
  std::vector<torch::Tensor> weights_;
  std::unique_ptr<torch::optim::AdamW> adam_;
};

void expect_like(const Core& core, const Peer& peer, int step) {
  const auto masters = owned_masters(core);
  for (std::size_t p = 0; p < kLinearParameters; ++p) {
    const torch::Tensor expected = peer.weight(p).detach();
    for (std::size_t i = 0; i < masters[p].size(); ++i) {
      if (std::isnan(masters[p][i])) continue;
      const float wanted = expected.data_ptr<float>()[i];
      // Some units of the weight and of the update for each step so far.
      const double bound = 0x1p-24 * (step + 1) * (4 * std::abs(wanted) + 16 * 1e-2 * 10);
      ASSERT_NEAR(masters[p][i], wanted, bound) << p << "[" << i << "], step " << step;
      if (p != 1) continue;
      ASSERT_EQ(masters[p][i], 1.0F) << "no gradient, yet it moved";
    }
  }
}

class ParameterGroups : public testing::TestWithParam<std::tuple<int, DType>> {};

TEST_P(ParameterGroups, FollowPyTorch) {
  const auto [stage, dtype] = GetParam();
  const EngineOptions options = options_for(stage, dtype);
  for (const int ranks : {2, 3}) {
    run_ranks(ranks, {.timeout = std::chrono::seconds(30)}, [&](Communicator& comm) {
      LinearModel model;
      {
        const torch::NoGradGuard no_grad;
        for (torch::Tensor& parameter : model->parameters()) parameter.fill_(1.0);
      }
      Engine engine(model, options, comm);
      Peer peer;
      for (int step = 0; step < 6; ++step) {
        std::get<AdamOptions>(engine.core().parameter_groups()[0]).lr = rate_at(step);
        engine.backward(model->loss(numbers_for(comm.rank(), step)));
        ASSERT_TRUE(engine.step().applied);
        peer.step(ranks, step);
        engine.finish();
        expect_like(engine.core(), peer, step);
        EXPECT_EQ(engine.core().without_gradient(),
                  step % 2 == 0 ? (std::vector<std::string>{"first.w1"})
                                : (std::vector<std::string>{"first.w1", "second.w1"}));
      }
      const OptimizerStates& states = engine.core().states();
      EXPECT_EQ(states.steps(0, 0), 6);  // the root
      EXPECT_EQ(states.steps(1, 0), 6);
      EXPECT_EQ(states.steps(1, 1), 0);
      EXPECT_EQ(states.steps(2, 0), 6);
      EXPECT_EQ(states.steps(2, 1), 3);
    });
  }
}

// Neither decay nor moments touch it, in 16 bits too.
TEST_P(ParameterGroups, WithoutGradientNothingMoves) {
  const auto [stage, dtype] = GetParam();
  const EngineOptions options = options_for(stage, dtype);
  run_ranks(2, {.timeout = std::chrono::seconds(30)}, [&](Communicator& comm) {
    LinearModel model;
    Engine engine(model, options, comm);
    engine.backward(model->loss(linear_numbers(comm.rank(), 0)));
    engine.step();
    const std::vector<double> before = states_of(engine);
    std::vector<torch::Tensor> none(kLinearParameters);
    engine.backward(model->loss(none));
    EXPECT_TRUE(engine.step().applied);
    EXPECT_EQ(engine.core().without_gradient().size(), kLinearParameters);
    EXPECT_EQ(states_of(engine), before);
  });
}

// The first group has no momentum, another has: memory is there for those that need it.
TEST(ParameterGroupsOfDifferentKinds, HaveTheMomentsThatAnyNeeds) {
  EngineOptions options = options_for(2, DType::fp32);
  options.parameter_groups = {SgdOptions{.lr = 0.5}, SgdOptions{.lr = 0.5, .momentum = 0.5}};
  run_ranks(2, {.timeout = std::chrono::seconds(30)}, [&](Communicator& comm) {
    LinearModel model;
    Engine engine(model, options, comm);
    for (int step = 0; step < 2; ++step) {
      std::vector<torch::Tensor> numbers;
      for (std::size_t p = 0; p < kLinearParameters; ++p) {
        numbers.push_back(torch::ones({linear_numel(p)}));
      }
      engine.backward(model->loss(numbers));
      ASSERT_TRUE(engine.step().applied);
    }
    const auto masters = owned_masters(engine.core());
    for (std::size_t p = 0; p < kLinearParameters; ++p) {
      for (const float value : masters[p]) {
        if (std::isnan(value)) continue;
        EXPECT_EQ(value, decays(p) ? -1.0F : -1.25F);
      }
    }
  });
}

TEST(ParameterGroupsThatDoNotFit, AreRefusedByName) {
  run_ranks(1, {}, [&](Communicator& comm) {
    EngineOptions options = options_for(0, DType::fp32);
    options.parameter_groups = {SgdOptions{.lr = 0.5}};
    LinearModel model;
    EXPECT_THROW(Engine(model, options, comm), ConfigError);  // there is no group 1
    options.parameter_group_of = {};
    Engine engine(model, options, comm);
    std::get<SgdOptions>(engine.core().parameter_groups()[0]).momentum = 0.9;
    engine.backward(model->loss(linear_numbers(0, 0)));
    EXPECT_THROW(engine.step(), StateError);
  });
}

INSTANTIATE_TEST_SUITE_P(Stages, ParameterGroups,
                         testing::Combine(testing::Range(0, 4),
                                          testing::Values(DType::fp32, DType::bf16)));

}  // namespace
}  // namespace zeroshard::test
