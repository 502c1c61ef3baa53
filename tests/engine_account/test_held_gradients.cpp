// One rank and one micro-step to a step: gradients stay in the tensors that autograd has made.
#include <gtest/gtest.h>

#include "tests/engine_account/account_support.h"
#include "zeroshard/comm/single.h"

namespace zeroshard::test {
namespace {

const GradientGroup& group_of(Engine& engine, std::size_t unit) {
  return engine.core().reducer().units()[unit].groups.front();
}

torch::Tensor loss_of(Model& model, const RunPlan& plan, int seed) {
  return model->loss(batch_of(4, 9, plan.shape.vocabulary, seed));
}

class HeldGradients : public testing::TestWithParam<int> {
 protected:
  HeldGradients() {
    plan.options.zero.stage = GetParam();
    set_parameters(*model, 1);
    engine = std::make_unique<Engine>(model, plan.options, *comm);
  }
  std::int64_t gradient_bytes() const {
    return engine->core().memory().bytes(Category::gradients, Tier::device);
  }

  RunPlan plan = small_plan(GetParam(), 1, DType::bf16);
  std::unique_ptr<Communicator> comm = make_single_communicator();
  Model model{plan.shape};
  std::unique_ptr<Engine> engine;
};

// Of a matrix, whose gradient is a transposed view of a product.
TEST_P(HeldGradients, AreNotCopied) {
  std::map<std::string, const void*> made;
  for (const auto& parameter : model->named_parameters()) {
    if (parameter.value().dim() < 2) continue;
    parameter.value().register_hook([&made, name = parameter.key()](const torch::Tensor& gradient) {
      made[name] = gradient.const_data_ptr();
    });
  }
  engine->backward(loss_of(model, plan, 1));
  int compared = 0;
  for (std::size_t unit = 0; unit < engine->core().units(); ++unit) {
    const FlatUnit& flat = engine->core().unit(unit);
    for (std::size_t i = 0; i < flat.parameters().size(); ++i) {
      const NamedParameter& parameter = flat.parameters()[i];
      const bool is_product = parameter.name.find("weight") != std::string::npos &&
                              parameter.name.find("tokens") == std::string::npos;
      if (!is_product || !made.contains(parameter.name)) continue;
      const UnitLayout::Location at = flat.layout().locate(i);
      EXPECT_EQ(group_of(*engine, unit).held(at.index).const_data_ptr(), made[parameter.name])
          << parameter.name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 2);
}

TEST_P(HeldGradients, CountFromTheirBackwardToTheirStep) {
  EXPECT_EQ(gradient_bytes(), 0);
  const Footprint planned =
      footprint(layout_of(engine->core()), footprint_options_of(plan.options));
  for (int step = 0; step < 2; ++step) {
    engine->backward(loss_of(model, plan, step));
    EXPECT_EQ(gradient_bytes(), planned.bytes(Category::gradients, Tier::device));
    engine->step();
    EXPECT_EQ(gradient_bytes(), 0);
  }
}

// A second backward of a step adds to them, in memory of ours that stays.
TEST_P(HeldGradients, OfTwoBackwardsAddUp) {
  const auto gradient_norm = [&](std::vector<int> seeds) {
    Model twin(plan.shape);
    set_parameters(*twin, 1);
    twin->to(torch::kBFloat16);
    torch::Tensor sum = torch::zeros({}, torch::kDouble);
    for (const int seed : seeds) loss_of(twin, plan, seed).backward();
    for (const torch::Tensor& parameter : twin->parameters()) {
      if (parameter.grad().defined()) sum += parameter.grad().to(torch::kDouble).square().sum();
    }
    return sum.sqrt().item<double>();
  };
  engine->backward(loss_of(model, plan, 1));
  engine->backward(loss_of(model, plan, 2));
  const double both = engine->step().gradient_norm;
  EXPECT_NEAR(both, gradient_norm({1, 2}), 0.01 * both);
  EXPECT_FALSE(group_of(*engine, 1).is_held());
  EXPECT_GT(gradient_bytes(), 0);
}

// G is then fp32 in the making, and 16 bits when it is reduced: each is read as what it is.
TEST_P(HeldGradients, OfTwoBackwardsAddUpInAnotherDtypeToo) {
  RunPlan wide = plan;
  wide.options.precision.grad_accum_dtype = DType::fp32;
  std::vector<double> norms;
  for (const RunPlan& each : {plan, wide}) {
    Model twin(each.shape);
    set_parameters(*twin, 1);
    Engine other(twin, each.options, *comm);
    other.backward(loss_of(twin, each, 1));
    other.backward(loss_of(twin, each, 2));
    norms.push_back(other.step().gradient_norm);
  }
  EXPECT_NEAR(norms[0], norms[1], 0.01 * norms[0]);
}

INSTANTIATE_TEST_SUITE_P(Stages, HeldGradients, testing::Range(0, 4));

// Two parameters that are given one and the same gradient tensor must not share it.
TEST(HeldGradient, ThatTwoShareIsCopied) {
  struct SumImpl : torch::nn::Module {
    SumImpl() {
      a = register_parameter("a", torch::ones({8}));
      b = register_parameter("b", torch::ones({8}));
    }
    torch::Tensor a, b;
  };
  SumImpl sum;
  const auto comm = make_single_communicator();
  Engine engine(static_cast<torch::nn::Module&>(sum), EngineOptions{}, *comm);
  engine.backward((sum.a + sum.b).square().sum());
  const GradientGroup& group = group_of(engine, 0);
  EXPECT_NE(group.held(0).const_data_ptr(), group.held(1).const_data_ptr());
}

}  // namespace
}  // namespace zeroshard::test
