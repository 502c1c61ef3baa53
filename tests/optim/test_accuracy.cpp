// Every optimizer against the same formula in double. The bound is derived operation by operation
// (approximation.h), not guessed.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/optim/optim_support.h"
#include "tests/optim/reference.h"

namespace zeroshard {
namespace {

using testing::all_optimizers;
using testing::Approximation;
using testing::Element;
using testing::Random;
using testing::Reference;
using testing::States;

constexpr float kFactor = 0.37F;

std::vector<Element> elements_of(const States& states) {
  std::vector<Element> elements;
  for (std::size_t i = 0; i < states.master.size(); ++i) {
    elements.push_back({.parameter = Approximation::exact(states.master[i]),
                        .first = Approximation::exact(states.first[i]),
                        .second = Approximation::exact(states.second[i])});
  }
  return elements;
}

// One step of the kernel and of the reference.
void step_both(const OptimizerOptions& options, std::int64_t step, States& states,
               std::vector<Element>& elements) {
  ThreadPool pool(1);
  update_span(options, states.span(0, states.count()), {.gradient_factor = kFactor, .step = step},
              pool);
  const Reference reference(options, step);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    reference.update(elements[i],
                     Approximation::exact(states.gradient(i)) * Approximation::exact(kFactor));
  }
}

// What the tie rule may have moved by its last bit (numeric/halved_master.h).
double moved_by(const States& states, std::size_t i) {
  const float master = states.master[i];
  const bool may_be = states.parameter_dtype == DType::bf16 &&
                      (std::bit_cast<std::uint32_t>(master) & 0x1FFFFU) == 0x7FFFU;
  return may_be ? std::abs(static_cast<double>(master)) * 0x1p-23 : 0.0;
}

void expect_within_bound(const OptimizerOptions& options, const States& states,
                         const std::vector<Element>& elements) {
  const int moments = moments_per_parameter(options);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    Element e = elements[i];
    e.parameter.error += moved_by(states, i);
    EXPECT_TRUE(e.parameter.covers(states.master[i]))
        << i << ": " << states.master[i] << " for " << e.parameter.value << " +- "
        << e.parameter.error;
    EXPECT_TRUE(moments < 1 || e.first.covers(states.first[i])) << i;
    EXPECT_TRUE(moments < 2 || e.second.covers(states.second[i])) << i;
  }
}

TEST(OptimizerAccuracy, OneStepFromAnyPlausibleState) {
  Random random(21);
  for (const OptimizerOptions& options : all_optimizers()) {
    for (const std::int64_t step : {1, 2, 1000}) {
      States states = plausible_states(random, 2000, random.dtype(), random.dtype());
      if (std::holds_alternative<AdagradOptions>(options)) states.first = states.second;  // a sum
      auto elements = elements_of(states);
      step_both(options, step, states, elements);
      SCOPED_TRACE(fmt::format("optimizer {}, step {}", options.index(), step));
      expect_within_bound(options, states, elements);
    }
  }
}

// The bound grows from step to step and stays small, so it says something. Lion is left out: where
// the sign is in doubt its bound is a whole step.
TEST(OptimizerAccuracy, TwentySteps) {
  Random random(22);
  for (const OptimizerOptions& options : all_optimizers()) {
    if (std::holds_alternative<LionOptions>(options)) continue;
    States states = plausible_states(random, 500, DType::fp32, DType::bf16);
    std::fill(states.first.begin(), states.first.end(), 0.0F);
    std::fill(states.second.begin(), states.second.end(), 0.0F);
    auto elements = elements_of(states);
    for (std::int64_t step = 1; step <= 20; ++step) {
      for (float& gradient : states.gradient32) gradient = random.normal(0.1F);
      step_both(options, step, states, elements);
    }
    SCOPED_TRACE(fmt::format("optimizer {}", options.index()));
    expect_within_bound(options, states, elements);
    std::vector<Approximation> parameters;
    for (const Element& e : elements) parameters.push_back(e.parameter);
    EXPECT_LE(typical_bound(parameters), 1e-5);
  }
}

}  // namespace
}  // namespace zeroshard
