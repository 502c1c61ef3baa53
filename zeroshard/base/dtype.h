// Element types of states and messages, by the names the config and the checkpoints use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace zeroshard {

enum class DType { fp32, bf16, fp16, int32, uint8 };

constexpr std::int64_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
    case DType::int32: return 4;
    case DType::bf16:
    case DType::fp16: return 2;
    case DType::uint8: return 1;
  }
  return 0;
}

// Where an element of untyped memory lies.
inline std::byte* element_at(void* data, std::int64_t element, DType dtype) {
  return static_cast<std::byte*>(data) + element * bytes_of(dtype);
}
inline const std::byte* element_at(const void* data, std::int64_t element, DType dtype) {
  return static_cast<const std::byte*>(data) + element * bytes_of(dtype);
}

constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::fp32: return "fp32";
    case DType::bf16: return "bf16";
    case DType::fp16: return "fp16";
    case DType::int32: return "int32";
    case DType::uint8: return "uint8";
  }
  return "?";
}

// Reads the spellings ds_config.json allows: fp16, float16, half, torch.float16, and so on.
std::optional<DType> parse_float_dtype(std::string_view text);

}  // namespace zeroshard
