// The words a safetensors header uses.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "zeroshard/base/dtype.h"

namespace zeroshard {

inline constexpr std::string_view kMetadataKey = "__metadata__";

struct SafetensorsDType {
  std::string_view name;
  std::uint64_t bits;          // of one element
  std::optional<DType> dtype;  // nothing: the format has it, ZeroShard does not
};

inline constexpr std::array<SafetensorsDType, 22> kSafetensorsDTypes{{
    {"F32", 32, DType::fp32},         {"BF16", 16, DType::bf16},
    {"F16", 16, DType::fp16},         {"I32", 32, DType::int32},
    {"U8", 8, DType::uint8},          {"F64", 64, std::nullopt},
    {"I64", 64, std::nullopt},        {"U64", 64, std::nullopt},
    {"C64", 64, std::nullopt},        {"U32", 32, std::nullopt},
    {"I16", 16, std::nullopt},        {"U16", 16, std::nullopt},
    {"I8", 8, std::nullopt},          {"BOOL", 8, std::nullopt},
    {"F8_E4M3", 8, std::nullopt},     {"F8_E5M2", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt},     {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt}, {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},     {"F4", 4, std::nullopt},
}};

constexpr const SafetensorsDType* find_safetensors_dtype(std::string_view name) {
  for (const SafetensorsDType& known : kSafetensorsDTypes) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

constexpr std::string_view safetensors_name_of(DType dtype) {
  for (const SafetensorsDType& known : kSafetensorsDTypes) {
    if (known.dtype == dtype) return known.name;
  }
  return "?";
}

// The type of what a file holds: one of ours, or another that the format has, whose bytes can be
// moved and not computed with.
class StoredDType {
 public:
  constexpr StoredDType() = default;
  constexpr StoredDType(DType dtype)  // NOLINT: every type of ours can be stored
      : row_(find_safetensors_dtype(safetensors_name_of(dtype))) {}
  // Nothing where the format has no such word.
  static constexpr std::optional<StoredDType> of(std::string_view name) {
    const SafetensorsDType* const row = find_safetensors_dtype(name);
    return row == nullptr ? std::nullopt : std::optional(StoredDType(row));
  }

  constexpr std::string_view name() const { return row_->name; }
  constexpr std::uint64_t bits() const { return row_->bits; }
  constexpr std::uint64_t bytes() const { return row_->bits / 8; }
  constexpr std::optional<DType> dtype() const { return row_->dtype; }

  constexpr bool operator==(const StoredDType&) const = default;

 private:
  constexpr explicit StoredDType(const SafetensorsDType* row) : row_(row) {}

  const SafetensorsDType* row_ = &kSafetensorsDTypes.front();  // of that table
};

}  // namespace zeroshard
