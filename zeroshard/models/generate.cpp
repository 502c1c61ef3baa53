#include "zeroshard/models/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "zeroshard/base/counter_random.h"
#include "zeroshard/base/error.h"
#include "zeroshard/models/key_values.h"

namespace zeroshard {
namespace {

void check_request(const std::vector<std::int64_t>& prompt, const SamplingOptions& options,
                   std::int64_t vocabulary) {
  const auto refuse = [](std::string what, std::string value, std::string remedy) {
    throw ConfigError(
        {.what = std::move(what), .value = std::move(value), .remedy = std::move(remedy)});
  };
  if (prompt.empty()) refuse("the prompt is empty", "", "give at least one token");
  for (const std::int64_t token : prompt) {
    if (token >= 0 && token < vocabulary) continue;
    refuse("the prompt has a token outside the vocabulary", fmt::format("{}", token),
           fmt::format("give 0 to {}", vocabulary - 1));
  }
  if (options.count < 0) {
    refuse("the number of tokens is negative", fmt::format("{}", options.count), "give 0 or more");
  }
  if (!std::isfinite(options.temperature) || options.temperature < 0) {
    refuse("the temperature is out of range", fmt::format("{}", options.temperature),
           "give 0 (most probable token) or more");
  }
  if (options.top_k < 0) {
    refuse("top_k is negative", fmt::format("{}", options.top_k), "give 0 for all tokens");
  }
}

// The last `length` tokens, as a batch of one.
torch::Tensor last_of(const std::vector<std::int64_t>& tokens, std::int64_t length) {
  torch::Tensor window = at::empty({1, length}, at::kLong);
  std::copy(tokens.end() - length, tokens.end(), window.mutable_data_ptr<std::int64_t>());
  return window;
}

torch::Tensor next_logits(GptImpl& model, const std::vector<std::int64_t>& tokens,
                          KeyValueCache& cache) {
  const at::Device device = model.embedding->tokens.device();
  const auto length = static_cast<std::int64_t>(tokens.size());
  if (length > model.options.sequence) {
    return model.next_logits(last_of(tokens, model.options.sequence).to(device));
  }
  return model.next_logits(last_of(tokens, length - cache.length()).to(device), cache);
}

std::vector<float> to_floats(const torch::Tensor& logits) {
  const torch::Tensor flat = logits.to(at::kCPU, at::kFloat).reshape({-1}).contiguous();
  const auto* data = flat.const_data_ptr<float>();
  return {data, data + flat.numel()};
}

// Token numbers to choose among, the most probable first where only some may be chosen.
std::vector<std::int64_t> candidates(const std::vector<float>& logits, std::int64_t top_k) {
  std::vector<std::int64_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  if (top_k == 0 || top_k >= static_cast<std::int64_t>(tokens.size())) return tokens;
  const auto is_before = [&](std::int64_t a, std::int64_t b) {
    const float left = logits[static_cast<std::size_t>(a)];
    const float right = logits[static_cast<std::size_t>(b)];
    return left != right ? left > right : a < b;
  };
  std::partial_sort(tokens.begin(), tokens.begin() + top_k, tokens.end(), is_before);
  tokens.resize(static_cast<std::size_t>(top_k));
  return tokens;
}

}  // namespace

std::int64_t choose_token(const std::vector<float>& logits, const SamplingOptions& options,
                          double random) {
  if (!std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); })) {
    throw StateError({.what = "the model's output is not finite",
                      .remedy = "it has diverged; load an earlier checkpoint"});
  }
  const auto highest = std::max_element(logits.begin(), logits.end());
  if (options.temperature == 0) return highest - logits.begin();
  const std::vector<std::int64_t> tokens = candidates(logits, options.top_k);
  std::vector<double> sums;
  double sum = 0;
  for (const std::int64_t token : tokens) {
    const double below = static_cast<double>(logits[static_cast<std::size_t>(token)]) - *highest;
    sum += std::exp(below / options.temperature);
    sums.push_back(sum);
  }
  const auto chosen = std::upper_bound(sums.begin(), sums.end(), random * sum);
  return tokens[static_cast<std::size_t>(std::min(chosen, sums.end() - 1) - sums.begin())];
}

std::vector<std::int64_t> generate(GptImpl& model, const std::vector<std::int64_t>& prompt,
                                   const SamplingOptions& options) {
  check_request(prompt, options, model.options.vocabulary);
  const at::NoGradGuard no_grad;
  const CounterRandom random("generate", options.seed);
  KeyValueCache cache(model.options);
  std::vector<std::int64_t> tokens = prompt;
  for (std::int64_t i = 0; i < options.count; ++i) {
    if (options.may_go_on && !options.may_go_on()) break;
    const std::vector<float> logits = to_floats(next_logits(model, tokens, cache));
    tokens.push_back(choose_token(logits, options, random.uniform(static_cast<std::uint64_t>(i))));
  }
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()));
  return tokens;
}

}  // namespace zeroshard
