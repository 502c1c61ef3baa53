// Our optimizers beside PyTorch's fused ones for 20 random steps.
//
// The bound: the exact trajectory in double carries a bound E on what fp32 can do to it, derived
// operation by operation (tests/optim/approximation.h). Ours must lie within E. PyTorch rounds at
// other places (fused multiply-adds, 1 - lr * decay as one factor, a division where we multiply),
// with at most twice the roundings, so it must lie within 2 E. Hence the two are within 3 E.
#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_adagrad.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "tests/optim/optim_support.h"
#include "tests/optim/reference.h"

namespace zeroshard {
namespace {

using testing::Approximation;
using testing::Element;
using testing::Random;
using testing::Reference;
using testing::States;

constexpr std::int64_t kCount = 1003;
constexpr std::int64_t kSteps = 20;

at::Tensor tensor_of(const std::vector<float>& values) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(values.size())}, at::kFloat);
  std::copy(values.begin(), values.end(), tensor.data_ptr<float>());
  return tensor;
}

// PyTorch's states of the same span, and its step.
struct TorchStates {
  at::Tensor parameter, first, second;

  void update(const AdamOptions& o, const at::Tensor& gradient, std::int64_t step) const {
    const at::Tensor count = at::full({}, static_cast<double>(step), at::kFloat);
    if (o.decoupled_decay) {
      at::_fused_adamw_({parameter}, {gradient}, {first}, {second}, {}, {count}, o.lr, o.betas[0],
                        o.betas[1], o.weight_decay, o.eps, /*amsgrad=*/false, /*maximize=*/false);
    } else {
      at::_fused_adam_({parameter}, {gradient}, {first}, {second}, {}, {count}, o.lr, o.betas[0],
                       o.betas[1], o.weight_decay, o.eps, /*amsgrad=*/false, /*maximize=*/false);
    }
  }
  void update(const SgdOptions& o, const at::Tensor& gradient, std::int64_t step) const {
    const std::vector<at::Tensor> buffers =
        o.momentum != 0.0 ? std::vector<at::Tensor>{first} : std::vector<at::Tensor>{};
    at::_fused_sgd_({parameter}, {gradient}, buffers, o.weight_decay, o.momentum, o.lr, o.dampening,
                    o.nesterov, /*maximize=*/false, /*is_first_step=*/step == 1);
  }
  void update(const AdagradOptions& o, const at::Tensor& gradient, std::int64_t step) const {
    const at::Tensor count = at::full({}, static_cast<double>(step), at::kFloat);
    at::_fused_adagrad_({parameter}, {gradient}, {first}, {count}, o.lr, /*lr_decay=*/0.0,
                        o.weight_decay, o.eps, /*maximize=*/false);
  }
  void update(const LionOptions&, const at::Tensor&, std::int64_t) const {
    FAIL() << "PyTorch has no Lion";
  }
};

// The largest distances from the exact trajectory, in units of E; and E itself.
struct Distances {
  double ours = 0.0, torch = 0.0, between = 0.0;
  std::vector<Approximation> exact{};

  void note(const Approximation& value, float our, float theirs) {
    ours = std::max(ours, std::abs(our - value.value) / value.error);
    torch = std::max(torch, std::abs(theirs - value.value) / value.error);
    between = std::max(between, std::abs(static_cast<double>(our) - theirs));
    exact.push_back(value);
  }
};

Distances run_twenty_steps(const OptimizerOptions& options, Random& random) {
  States states = plausible_states(random, kCount, DType::fp32, DType::fp32);
  std::fill(states.first.begin(), states.first.end(), 0.0F);
  std::fill(states.second.begin(), states.second.end(), 0.0F);
  const TorchStates torch{tensor_of(states.master), tensor_of(states.first),
                          tensor_of(states.second)};
  std::vector<Element> exact;
  for (const float master : states.master) {
    exact.push_back({.parameter = Approximation::exact(master)});
  }
  ThreadPool pool(1);
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    for (float& gradient : states.gradient32) gradient = random.normal(0.1F);
    const at::Tensor gradient = tensor_of(states.gradient32);
    update_span(options, states.span(0, kCount), {.step = step}, pool);
    std::visit([&](const auto& one) { torch.update(one, gradient, step); }, options);
    const Reference reference(options, step);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      reference.update(exact[i], Approximation::exact(states.gradient32[i]));
    }
  }
  Distances distances;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    distances.note(exact[i].parameter, states.master[i], torch.parameter.data_ptr<float>()[i]);
  }
  return distances;
}

TEST(AgainstTorch, TwentyStepsStayWithinTheDerivedBound) {
  Random random(71);
  for (const OptimizerOptions& options : testing::all_optimizers()) {
    // PyTorch has no Lion, and no Adam without bias correction.
    if (std::holds_alternative<LionOptions>(options)) continue;
    const auto* adam = std::get_if<AdamOptions>(&options);
    if (adam != nullptr && !adam->bias_correction) continue;
    const Distances distances = run_twenty_steps(options, random);
    SCOPED_TRACE(fmt::format("optimizer {}", options.index()));
    EXPECT_LE(distances.ours, 1.0);
    EXPECT_LE(distances.torch, 2.0);
    const double bound = typical_bound(distances.exact);
    EXPECT_LE(bound, 1e-5);  // so it says something
    fmt::print("optimizer {}: ours {:.2f} E, torch {:.2f} E, E {:.1e}, apart {:.1e}\n",
               options.index(), distances.ours, distances.torch, bound, distances.between);
  }
}

}  // namespace
}  // namespace zeroshard
