#include "zeroshard/base/dtype.h"

#include <array>
#include <utility>

namespace zeroshard {

std::optional<DType> parse_float_dtype(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, DType>, 11> kSpellings{{
      {"fp32", DType::fp32},
      {"float32", DType::fp32},
      {"float", DType::fp32},
      {"torch.float32", DType::fp32},
      {"fp16", DType::fp16},
      {"float16", DType::fp16},
      {"half", DType::fp16},
      {"torch.float16", DType::fp16},
      {"bf16", DType::bf16},
      {"bfloat16", DType::bf16},
      {"torch.bfloat16", DType::bf16},
  }};
  for (const auto& [spelling, dtype] : kSpellings) {
    if (spelling == text) return dtype;
  }
  return std::nullopt;
}

}  // namespace zeroshard
