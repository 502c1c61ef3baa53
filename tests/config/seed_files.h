// The seven files that must be read exactly as they stand, copied literally: where the folder
// ../shared is absent they are tested all the same.
#pragma once

#include <array>
#include <utility>

namespace zeroshard::config {

inline constexpr std::array<std::pair<const char*, const char*>, 7> kSeedFiles{{
    {"basic_neuralnet.json", R"seed(// 01_basic_neuralnet/ds_config.json
{
  "zero_optimization": {
    "stage": 2
  },
  "fp16": {
    "enabled": true
  }
}
)seed"},
    {"huggingface_lora.json", R"seed(// 06_huggingface_grpo/ds_config.json
{
  "zero_optimization": {
    "stage": 2,
    "offload_optimizer": {
      "device": "cpu"
    }
  }
}
)seed"},
    {"multimodal.json", R"seed(// 09_vss/ds_config.json
{
  "zero_optimization": {
    "stage": 3,
    "offload_optimizer": {
      "device": "cpu",
      "pin_memory": true
    },
    "offload_param": {
      "device": "cpu",
      "pin_memory": true
    }
  }
}
)seed"},
    {"stage1.json", R"seed({
  "zero_optimization": {
    "stage": 1
  }
}
)seed"},
    {"stage2.json", R"seed({
  "zero_optimization": {
    "stage": 2,
    "contiguous_gradients": true,
    "overlap_comm": true
  }
}
)seed"},
    {"stage2_offload.json", R"seed({
  "zero_optimization": {
    "stage": 2,
    "offload_optimizer": {
      "device": "cpu",
      "pin_memory": true
    }
  }
}
)seed"},
    {"stage3_offload.json", R"seed({
  "zero_optimization": {
    "stage": 3,
    "offload_optimizer": {
      "device": "cpu",
      "pin_memory": true
    },
    "offload_param": {
      "device": "cpu",
      "pin_memory": true
    }
  }
}
)seed"},
}};

}  // namespace zeroshard::config
