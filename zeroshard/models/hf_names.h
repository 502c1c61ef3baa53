// The built-in models that are one of HuggingFace's by another name: which of its tensors is which
// part of ours, and the config.json that describes it there. Free of torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zeroshard/models/options.h"

namespace zeroshard {

struct HfTensor {
  std::string name;  // HuggingFace's
  std::string from;  // ours
  std::vector<std::int64_t> dims;
  std::int64_t first_row = 0;  // of ours, whose rows it has from there on
  bool transposed = false;     // its dims are ours the other way round
};

struct HfNames {
  std::vector<HfTensor> tensors;
  std::string config;  // the text of config.json, in fp32
};

// GPT-2: learned positions, layer norms, GELU, as many key heads as heads. Llama: rotary positions,
// RMS norms, SwiGLU. Nothing for any other mixture: transformers has no such model.
std::optional<HfNames> hf_names(const GptOptions& options);

}  // namespace zeroshard
