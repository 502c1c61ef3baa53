// Models for the tests, and training of them on ranks that are threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zeroshard/engine/engine.h"
#include "zeroshard/models/gpt.h"

namespace zeroshard::test {

// Small, with different numbers everywhere, so that a mixed-up pair shows.
GptOptions gpt2_options();
GptOptions llama_options();  // with half as many key heads
Gpt filled_gpt(const GptOptions& options, std::uint64_t seed = 1);

// Depends on the arguments alone.
at::Tensor tokens_of(std::int64_t rows, std::int64_t length, std::int64_t vocabulary,
                     std::uint64_t seed);

struct GptRun {
  GptOptions model = {};
  int stage = 0;
  int ranks = 2;
  int steps = 4;
  DType dtype = DType::fp32;
  bool init = true;  // shards are made at once, and filled by the engine
};

struct GptTrace {
  std::vector<double> losses;  // of rank 0
  std::vector<double> norms;
  std::vector<float> weights;
  std::vector<std::int64_t> sampled;  // tokens generated after training, by rank 0

  bool operator==(const GptTrace&) const = default;
};

// All ranks must end with the same weights and samples, else it throws.
GptTrace train_gpt(const GptRun& run);
EngineOptions small_engine(const GptRun& run);

}  // namespace zeroshard::test
