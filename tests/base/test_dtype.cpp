#include <gtest/gtest.h>

#include "zeroshard/base/dtype.h"

namespace zeroshard {
namespace {

TEST(DType, SizesAndNames) {
  static_assert(bytes_of(DType::fp32) == 4 && bytes_of(DType::int32) == 4);
  static_assert(bytes_of(DType::bf16) == 2 && bytes_of(DType::fp16) == 2);
  static_assert(bytes_of(DType::uint8) == 1);
  EXPECT_EQ(name_of(DType::bf16), "bf16");
  EXPECT_EQ(name_of(DType::int32), "int32");
}

TEST(DType, FloatNamesReadBack) {
  for (const auto dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    EXPECT_EQ(parse_float_dtype(name_of(dtype)), dtype);
  }
}

TEST(DType, ReadsEverySpellingOfTheConfig) {
  for (const auto* text : {"fp16", "float16", "half", "torch.float16"}) {
    EXPECT_EQ(parse_float_dtype(text), DType::fp16) << text;
  }
  for (const auto* text : {"bf16", "bfloat16", "torch.bfloat16"}) {
    EXPECT_EQ(parse_float_dtype(text), DType::bf16) << text;
  }
  for (const auto* text : {"fp32", "float32", "float", "torch.float32"}) {
    EXPECT_EQ(parse_float_dtype(text), DType::fp32) << text;
  }
}

TEST(DType, OthersAreNothing) {
  for (const auto* text : {"", "FP16", "fp8", "int32", "uint8", "float64", "fp16 "}) {
    EXPECT_EQ(parse_float_dtype(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace zeroshard
