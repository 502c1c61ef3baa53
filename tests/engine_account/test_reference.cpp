// Against plain libtorch in one process, without any engine. After each step the reference takes
// the engine's weights over, so that each step is compared by itself and bounds do not grow.
#include <map>
#include <string>

#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include "tests/engine_account/account_support.h"

namespace zeroshard::test {
namespace {

constexpr double kUnit = 0x1p-24;

// Units are plain modules here.
Model plain_model(const RunPlan& plan) {
  Model model(plan.shape);
  set_parameters(*model, 1);
  return model;
}

torch::Tensor rows_of(const RunPlan& plan, int step, int rank) {
  const std::int64_t rows = plan.rows / plan.ranks;
  const auto batch =
      batch_of(plan.rows, 9, plan.shape.vocabulary, static_cast<std::uint64_t>(step));
  return batch.narrow(0, rank * rows, rows);
}

// By name, in double.
using Values = std::map<std::string, torch::Tensor>;

Values weights_of(Engine& engine) {
  Values all;
  engine.visit_parameters([&](const std::string& name, const at::Tensor& full) {
    all[name] = full.detach().to(torch::kDouble);
  });
  return all;
}

Values weights_of(Model& model) {
  Values all;
  for (const auto& each : model->named_parameters()) {
    all[each.key()] = each.value().detach().to(torch::kDouble);
  }
  return all;
}

void take_over(Model& model, const Values& values) {
  const torch::NoGradGuard no_grad;
  for (auto& each : model->named_parameters()) each.value().copy_(values.at(each.key()));
}

class Reference : public testing::TestWithParam<int> {};

// A learning rate of 1: weights move by the gradient itself, rounded once.
TEST_P(Reference, OneRankHasTheSameLossAndGradientBits) {
  RunPlan plan = small_plan(GetParam(), 1);
  plan.options.precision.gradient_clipping = 0.0;
  plan.options.parameter_groups = {SgdOptions{.lr = 1.0}};
  with_engine(plan, {}, [&](Model& model, Engine& engine, Communicator&) {
    Model plain = plain_model(plan);
    for (int step = 0; step < 20; ++step) {
      const torch::Tensor tokens = rows_of(plan, step, 0);
      plain->zero_grad();
      const torch::Tensor expected = plain->loss(tokens);
      expected.backward();
      const torch::Tensor loss = model->loss(tokens);
      engine.backward(loss);
      ASSERT_TRUE(engine.step().applied);
      EXPECT_EQ(loss.item<float>(), expected.item<float>()) << "step " << step;
      const Values after = weights_of(engine);
      const torch::NoGradGuard no_grad;
      for (auto& each : plain->named_parameters()) {
        each.value().sub_(each.value().grad());
        EXPECT_TRUE(torch::equal(after.at(each.key()), each.value().to(torch::kDouble)))
            << each.key() << ", step " << step;
      }
    }
  });
}

// Gradients have the same bits, so moments differ by their own roundings alone: some units of what
// went into them. An update is at most lr * |m| / sqrt(v) long, and |m| <= 10 sqrt(v) for these
// betas; the weight itself is rounded by decay and by the sum.
TEST_P(Reference, OneRankStaysWithinTheOptimizersBound) {
  constexpr double kLr = 1e-2;
  RunPlan plan = small_plan(GetParam(), 1);
  plan.options.precision.gradient_clipping = 0.0;
  plan.options.parameter_groups = {AdamOptions{.lr = kLr, .weight_decay = 0.1}};
  with_engine(plan, {}, [&](Model& model, Engine& engine, Communicator&) {
    Model plain = plain_model(plan);
    torch::optim::AdamW adam(plain->parameters(),
                             torch::optim::AdamWOptions(kLr).weight_decay(0.1));
    for (int step = 0; step < 20; ++step) {
      const torch::Tensor tokens = rows_of(plan, step, 0);
      adam.zero_grad();
      plain->loss(tokens).backward();
      adam.step();
      engine.backward(model->loss(tokens));
      engine.step();
      const Values ours = weights_of(engine);
      for (const auto& [name, theirs] : weights_of(plain)) {
        const torch::Tensor bound = kUnit * (4 * theirs.abs() + 16 * kLr * 10);
        EXPECT_TRUE(((ours.at(name) - theirs).abs() <= bound).all().item<bool>())
            << name << ", step " << step;
      }
      take_over(plain, ours);
    }
  });
}

struct MeanGradient {
  Values mean, absolute;
};

MeanGradient mean_gradient(Model& plain, const RunPlan& plan, int step) {
  MeanGradient result;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    plain->zero_grad();
    plain->loss(rows_of(plan, step, rank)).backward();
    for (auto& each : plain->named_parameters()) {
      const torch::Tensor part = each.value().grad().to(torch::kDouble) / plan.ranks;
      for (auto& [sum, value] :
           {std::pair{&result.mean, part}, std::pair{&result.absolute, part.abs()}}) {
        const auto [at, is_new] = sum->try_emplace(each.key(), value);
        if (!is_new) at->second = at->second + value;
      }
    }
  }
  return result;
}

// Each rank's own gradient has the reference's bits. N of them are added in fp32 (N - 1 roundings),
// multiplied by 1/N (which is rounded, and rounds), and taken from the weight (rounded).
TEST_P(Reference, ManyRanksStayWithinTheRoundingsOfTheMean) {
  for (const int ranks : {2, 3, 4}) {
    RunPlan plan = small_plan(GetParam(), ranks);
    plan.options.precision.gradient_clipping = 0.0;
    plan.options.parameter_groups = {SgdOptions{.lr = 1.0}};
    with_engine(plan, {}, [&](Model& model, Engine& engine, Communicator& comm) {
      Model plain = plain_model(plan);
      for (int step = 0; step < 20; ++step) {
        const Values before = weights_of(plain);
        const MeanGradient expected = mean_gradient(plain, plan, step);
        engine.backward(model->loss(rows_of(plan, step, comm.rank())));
        ASSERT_TRUE(engine.step().applied);
        const Values after = weights_of(engine);
        for (const auto& [name, mean] : expected.mean) {
          const torch::Tensor wanted = before.at(name) - mean;
          const torch::Tensor bound =
              kUnit * ((ranks + 2) * expected.absolute.at(name) + wanted.abs());
          EXPECT_TRUE(((after.at(name) - wanted).abs() <= bound * (1 + 1e-6)).all().item<bool>())
              << name << ", step " << step << ", ranks " << ranks;
        }
        take_over(plain, after);
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, Reference, testing::Range(0, 4));

}  // namespace
}  // namespace zeroshard::test
