// Sampled text is a function of model, prompt and seed.
#include <cmath>
#include <limits>
#include <set>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/models/model_run.h"
#include "zeroshard/base/counter_random.h"
#include "zeroshard/base/error.h"
#include "zeroshard/models/generate.h"
#include "zeroshard/models/initializer.h"

namespace zeroshard::test {
namespace {

using Tokens = std::vector<std::int64_t>;

// The first weights say nearly the same of all tokens; these are far apart.
Gpt opinionated_gpt(const GptOptions& options) {
  Gpt model = filled_gpt(options);
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : model->parameters()) {
    if (parameter.dim() == 2) parameter.mul_(15);
  }
  return model;
}

TEST(Generate, GreedyIsTheArgmaxOfTheLastPosition) {
  for (const GptOptions& options : {gpt2_options(), llama_options()}) {
    Gpt model = opinionated_gpt(options);
    Tokens expected{3, 1, 4};
    const std::int64_t count = 2 * options.sequence;  // far beyond the window
    for (std::int64_t i = 0; i < count; ++i) {
      const auto length = std::min(static_cast<std::int64_t>(expected.size()), options.sequence);
      const Tokens window(expected.end() - length, expected.end());
      const at::Tensor logits = model->forward(at::tensor(window, at::kLong).unsqueeze(0));
      expected.push_back(logits.select(1, length - 1).argmax().item<std::int64_t>());
    }
    const Tokens found = generate(*model, {3, 1, 4}, {.count = count, .temperature = 0});
    EXPECT_EQ(found, Tokens(expected.begin() + 3, expected.end()));
    EXPECT_GT(std::set<std::int64_t>(found.begin(), found.end()).size(), 1U);
    EXPECT_EQ(generate(*model, {3, 1, 4}, {.count = count, .top_k = 1}), found);
  }
}

// A second way to the same logits, so equal to rounding and not to the bit.
TEST(Generate, KeptKeysAndValuesGiveTheLogitsOfTheWholeText) {
  GptOptions tied = gpt2_options();
  tied.tied_head = true;
  for (const GptOptions& options : {gpt2_options(), llama_options(), tied}) {
    Gpt model = opinionated_gpt(options);
    const at::NoGradGuard no_grad;
    const at::Tensor tokens = tokens_of(2, options.sequence, options.vocabulary, 5);
    KeyValueCache cache(options);
    constexpr std::int64_t kPrompt = 3;
    model->next_logits(tokens.narrow(1, 0, kPrompt), cache);
    EXPECT_EQ(cache.length(), kPrompt);
    for (std::int64_t seen = kPrompt; seen < options.sequence; ++seen) {
      const at::Tensor kept = model->next_logits(tokens.narrow(1, seen, 1), cache);
      const at::Tensor whole = model->next_logits(tokens.narrow(1, 0, seen + 1));
      EXPECT_TRUE(at::allclose(kept, whole, 1e-4, 1e-4)) << "token " << seen;
    }
    EXPECT_EQ(cache.length(), options.sequence);
    EXPECT_THROW(model->next_logits(tokens.narrow(1, 0, 1), cache), ConfigError) << "it is full";
  }
}

TEST(Generate, AKeptPastIsReadAndNotComputedAgain) {
  Gpt model = opinionated_gpt(gpt2_options());
  const at::NoGradGuard no_grad;
  KeyValueCache cache(model->options);
  model->next_logits(tokens_of(1, 4, 37, 5), cache);
  const at::Tensor before = model->next_logits(tokens_of(1, 1, 37, 6), cache).clone();
  KeyValueCache other(model->options);
  model->next_logits(tokens_of(1, 4, 37, 7), other);
  EXPECT_FALSE(at::allclose(model->next_logits(tokens_of(1, 1, 37, 6), other), before));
}

TEST(Generate, EndsWhereItMayNotGoOn) {
  Gpt model = filled_gpt(gpt2_options());
  const Tokens whole = generate(*model, {5}, {.count = 30, .seed = 8});
  int asked = 0;
  const Tokens part =
      generate(*model, {5}, {.count = 30, .seed = 8, .may_go_on = [&] { return ++asked <= 12; }});
  EXPECT_EQ(part, Tokens(whole.begin(), whole.begin() + 12));
}

TEST(Generate, SeedsDecide) {
  Gpt model = filled_gpt(gpt2_options());
  const SamplingOptions options{.count = 30, .seed = 8};
  const Tokens one = generate(*model, {5}, options);
  EXPECT_EQ(one.size(), 30U);
  at::manual_seed(99);  // torch's own generator has no part in it
  EXPECT_EQ(generate(*model, {5}, options), one);
  EXPECT_NE(generate(*model, {5}, {.count = 30, .seed = 9}), one);
  for (const auto& parameter : model->parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST(Generate, APromptLongerThanTheModelIsCut) {
  const GptOptions options = gpt2_options();
  Gpt model = opinionated_gpt(options);
  Tokens prompt;
  for (std::int64_t i = 0; i < 3 * options.sequence; ++i) prompt.push_back(i % 37);
  const Tokens end(prompt.end() - options.sequence, prompt.end());
  EXPECT_EQ(generate(*model, prompt, {.count = 5}), generate(*model, end, {.count = 5}));
  EXPECT_TRUE(generate(*model, prompt, {.count = 0}).empty());
}

TEST(ChooseToken, FrequenciesAreTheSoftmax) {
  const std::vector<float> logits{1.0F, 3.0F, -1.0F, 2.0F};
  const SamplingOptions options{.temperature = 0.7};
  const CounterRandom random("frequencies", 1);
  constexpr int kDraws = 40'000;
  std::vector<double> counts(4);
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    ++counts[static_cast<std::size_t>(choose_token(logits, options, random.uniform(i)))];
  }
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit / 0.7);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(counts[i] / kDraws, std::exp(logits[i] / 0.7) / sum, 0.01);
  }
}

TEST(ChooseToken, TopKAndTies) {
  const std::vector<float> logits{1.0F, 3.0F, 3.0F, 2.0F, 3.0F};
  EXPECT_EQ(choose_token(logits, {.temperature = 0}, 0.9), 1);
  for (const double random : {0.0, 0.3, 0.49}) {
    EXPECT_EQ(choose_token(logits, {.top_k = 2}, random), 1);
  }
  for (const double random : {0.51, 0.9, 0.999999}) {
    EXPECT_EQ(choose_token(logits, {.top_k = 2}, random), 2);
  }
  EXPECT_EQ(choose_token(logits, {.top_k = 100}, 0.99999), 4);
  EXPECT_EQ(choose_token({-1e30F, 1e30F}, {.temperature = 1e-3}, 0.5), 1);
}

TEST(ChooseToken, NotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(choose_token({1, nan, 2}, {.temperature = 0}, 0.5), StateError);
  EXPECT_THROW(choose_token({1, nan, 2}, {.top_k = 2}, 0.5), StateError);
}

TEST(Generate, WrongRequests) {
  Gpt model = filled_gpt(gpt2_options());
  EXPECT_THROW(generate(*model, {}, {}), ConfigError);
  EXPECT_THROW(generate(*model, {37}, {}), ConfigError);
  EXPECT_THROW(generate(*model, {-1}, {}), ConfigError);
  EXPECT_THROW(generate(*model, {1}, {.count = -1}), ConfigError);
  EXPECT_THROW(generate(*model, {1}, {.temperature = -0.5}), ConfigError);
  EXPECT_THROW(generate(*model, {1}, {.top_k = -1}), ConfigError);
}

}  // namespace
}  // namespace zeroshard::test
