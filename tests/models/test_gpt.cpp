// Logits, loss and gradients are those of the plain double precision model.
#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/models/model_run.h"
#include "tests/models/reference_gpt.h"
#include "zeroshard/base/counter_random.h"
#include "zeroshard/base/error.h"
#include "zeroshard/models/initializer.h"

namespace zeroshard::test {
namespace {

struct Case {
  const char* name;
  GptOptions options;
};

GptOptions with(GptOptions options, void (*change)(GptOptions&)) {
  change(options);
  return options;
}

std::vector<Case> all_cases() {
  const GptOptions gpt2 = gpt2_options();
  const GptOptions llama = llama_options();
  return {
      {"gpt2", gpt2},
      {"gpt2_tied", with(gpt2, [](GptOptions& o) { o.tied_head = true; })},
      {"gpt2_one_key_head", with(gpt2, [](GptOptions& o) { o.kv_heads = 1; })},
      {"gpt2_rotary", with(gpt2, [](GptOptions& o) { o.positions = Positions::rotary; })},
      {"gpt2_swiglu", with(gpt2, [](GptOptions& o) { o.activation = Activation::swiglu; })},
      {"llama_half_the_key_heads", llama},
      {"llama_all_key_heads", with(llama, [](GptOptions& o) { o.kv_heads = 0; })},
      {"llama_tied", with(llama, [](GptOptions& o) { o.tied_head = true; })},
      {"llama_learned_tied", with(llama,
                                  [](GptOptions& o) {
                                    o.positions = Positions::learned;
                                    o.tied_head = true;
                                  })},
      {"llama_narrow_mlp", with(llama, [](GptOptions& o) { o.mlp_width = 10; })},
  };
}

// Weights of about 1/sqrt(width) everywhere, biases and norms included: the first weights have
// zeros and ones that would hide a wrong bias, and attention that is nearly uniform.
Gpt lively_gpt(const GptOptions& options) {
  Gpt model(options);
  fill_parameters(*model, [](const std::string& name, const Span& elements, float* values) {
    const CounterRandom random(name, 9);
    const double around = name.ends_with("norm.weight") ? 1.0 : 0.0;
    for (std::int64_t i = 0; i < elements.size(); ++i) {
      values[i] = static_cast<float>(around + 0.25 * random.normal(static_cast<std::uint64_t>(i)));
    }
  });
  return model;
}

// The largest difference, relative to the reference's root mean square.
double distance(const at::Tensor& found, const at::Tensor& reference) {
  const double scale = reference.pow(2).mean().sqrt().item<double>();
  return (found.to(at::kDouble) - reference).abs().max().item<double>() / scale;
}

// 23 bits of mantissa through a few dozen sums of up to 100 numbers; seen: 1.2e-5, of
// one gradient.
constexpr double kTolerance = 5e-5;

class GptAgainstReference : public testing::TestWithParam<Case> {};

TEST_P(GptAgainstReference, Logits) {
  const GptOptions options = GetParam().options;
  Gpt model = lively_gpt(options);
  const Weights weights = double_weights(*model);
  for (const std::int64_t length : {options.sequence, options.sequence - 4, std::int64_t{1}}) {
    const at::Tensor tokens = tokens_of(3, length, options.vocabulary, 7);
    const at::Tensor expected = reference_logits(weights, options, tokens);
    const at::Tensor logits = model->forward(tokens);
    ASSERT_EQ(logits.sizes(), (std::vector<std::int64_t>{3, length, options.vocabulary}));
    EXPECT_LT(distance(logits, expected), kTolerance) << length;
    EXPECT_LT(distance(model->next_logits(tokens), expected.select(1, length - 1)), kTolerance);
  }
}

TEST_P(GptAgainstReference, LossAndGradients) {
  const GptOptions options = GetParam().options;
  Gpt model = lively_gpt(options);
  const Weights weights = double_weights(*model);
  const at::Tensor batch = tokens_of(3, options.sequence + 1, options.vocabulary, 8);
  const at::Tensor tokens = batch.narrow(1, 0, options.sequence);
  const at::Tensor targets = batch.narrow(1, 1, options.sequence).clone();
  targets.select(1, 3).fill_(kIgnoredTarget);
  const at::Tensor expected = reference_loss(reference_logits(weights, options, tokens), targets);
  const at::Tensor loss = model->loss(tokens, targets);
  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-5);
  loss.backward();
  expected.backward();
  for (const auto& parameter : model->named_parameters()) {
    ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
    const at::Tensor& reference = weights.at(parameter.key()).grad();
    EXPECT_LT(distance(parameter.value().grad(), reference), kTolerance) << parameter.key();
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, GptAgainstReference, testing::ValuesIn(all_cases()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(Gpt, DefaultWidthOfTheMlp) {
  EXPECT_EQ(gpt2_options().effective_mlp_width(), 96);
  EXPECT_EQ(llama_options().effective_mlp_width(), 64);
  EXPECT_EQ((GptOptions{.hidden = 4096, .activation = Activation::swiglu}).effective_mlp_width(),
            10944);
}

TEST(Gpt, NothingOfTheFutureIsSeen) {
  for (const GptOptions& options : {gpt2_options(), llama_options()}) {
    Gpt model = lively_gpt(options);
    const at::Tensor tokens = tokens_of(2, options.sequence, options.vocabulary, 3);
    at::Tensor changed = tokens.clone();
    changed.select(1, 6) = (changed.select(1, 6) + 1) % options.vocabulary;
    const at::Tensor difference = (model->forward(tokens) - model->forward(changed)).abs();
    EXPECT_EQ(difference.narrow(1, 0, 6).max().item<float>(), 0);
    EXPECT_GT(difference.select(1, 6).max().item<float>(), 0);
  }
}

TEST(Gpt, WrongTokensAreRefused) {
  Gpt model = filled_gpt(gpt2_options());
  const auto refused = [&](const at::Tensor& tokens) {
    try {
      model->forward(tokens);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused(at::zeros({2, 12}, at::kLong)),
            "[config] the model was given tokens that it cannot read: Long of shape [2, 12]; give "
            "int64 numbers [batch, length], length up to 11");
  EXPECT_NE(refused(at::zeros({2, 4}, at::kFloat)), "accepted");
  EXPECT_NE(refused(at::zeros({4}, at::kLong)), "accepted");
}

TEST(Gpt, WrongOptionsAreRefusedByTheModelToo) {
  EXPECT_THROW(Gpt(GptOptions{.hidden = 10, .heads = 4}), ConfigError);
}

}  // namespace
}  // namespace zeroshard::test
