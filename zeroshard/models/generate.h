// Tokens that a model says come next, for looking at what it has learnt.
//
//   generate(*model, tokens_of("Once upon"), {.count = 40, .temperature = 0.8, .top_k = 50});
#pragma once

#include <cstdint>
#include <vector>

#include "zeroshard/models/gpt.h"

namespace zeroshard {

struct SamplingOptions {
  std::int64_t count = 64;
  double temperature = 1.0;  // 0: always the most probable token
  std::int64_t top_k = 0;    // choose among that many; 0: among all
  std::uint64_t seed = 0;    // the same seed gives the same tokens
};

// The `count` new tokens. The model sees at most its last `sequence` tokens. With an engine all
// ranks call it together and get the same.
std::vector<std::int64_t> generate(GptImpl& model, const std::vector<std::int64_t>& prompt,
                                   const SamplingOptions& options);

// The token a random number in [0, 1) stands for, by these logits. Of equal ones the lower number
// comes first.
std::int64_t choose_token(const std::vector<float>& logits, const SamplingOptions& options,
                          double random);

}  // namespace zeroshard
