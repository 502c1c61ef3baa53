// Tokens that a model says come next, for looking at what it has learnt.
//
//   generate(*model, tokens_of("Once upon"), {.count = 40, .temperature = 0.8, .top_k = 50});
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "zeroshard/models/gpt.h"

namespace zeroshard {

struct SamplingOptions {
  std::int64_t count = 64;
  double temperature = 1.0;  // 0: always the most probable token
  std::int64_t top_k = 0;    // choose among that many; 0: among all
  std::uint64_t seed = 0;    // the same seed gives the same tokens
  // Asked before each token, on all ranks together; false ends the text there. Empty: go on.
  std::function<bool()> may_go_on = {};
};

// The new tokens, `count` of them or fewer where they were not to go on. The model sees at most its
// last `sequence` tokens. Up to there keys and values are kept; beyond, each token moves all
// positions by one, and all are computed again. With an engine all ranks call it together and get
// the same.
std::vector<std::int64_t> generate(GptImpl& model, const std::vector<std::int64_t>& prompt,
                                   const SamplingOptions& options);

// The token a random number in [0, 1) stands for, by these logits. Of equal ones the lower number
// comes first.
std::int64_t choose_token(const std::vector<float>& logits, const SamplingOptions& options,
                          double random);

}  // namespace zeroshard
