// Writes of whole arrays beside torch's operators on the CPU: to(), mul(), copy_() and add_().
#include <cstring>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "tests/numeric/array_writes.h"

namespace zeroshard {
namespace {

using testing::FloatArray;
using testing::Random;
using testing::WriteCase;

at::ScalarType torch_dtype(DType dtype) {
  if (dtype == DType::fp32) return at::kFloat;
  return dtype == DType::bf16 ? at::kBFloat16 : at::kHalf;
}

at::Tensor tensor_of(const FloatArray& array) {
  at::Tensor tensor = at::empty({array.count()}, torch_dtype(array.dtype));
  std::memcpy(tensor.data_ptr(), array.bytes.data(), array.bytes.size());
  return tensor;
}

// In torch a product of a 16-bit tensor is 16-bit; ours is rounded where the next step says so.
at::Tensor times(const at::Tensor& x, float factor) {
  return factor == 1.0F ? x : x.to(at::kFloat).mul(static_cast<double>(factor));
}

FloatArray by_torch(const WriteCase& one) {
  const ArrayWrite& w = one.write;
  const at::Tensor to = tensor_of(one.to);
  at::Tensor x = tensor_of(one.from).narrow(0, one.from_begin, w.count);
  x = times(x.to(torch_dtype(w.via1)), w.factor1);
  x = times(x.to(torch_dtype(w.via2)), w.factor2);
  const at::Tensor part = to.narrow(0, one.to_begin, w.count);
  if (w.adds) {
    part.copy_(part.to(at::kFloat).add_(x));
  } else {
    part.copy_(x);
  }
  FloatArray result = one.to;
  std::memcpy(result.bytes.data(), to.data_ptr(), result.bytes.size());
  return result;
}

TEST(ArraysAgainstTorch, AnyWrite) {
  Random random(63);
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t count = random.between(1, 200);
    WriteCase one = i % 3 == 0 ? plain_write(random, count) : random_write(random, count);
    const FloatArray expected = by_torch(one);
    write_arrays(kCpu, {placed_at(one, one.to.bytes.data(), one.from.bytes.data())});
    ASSERT_EQ(difference(one.to, expected), "") << "case " << i;
  }
}

// What the engine replaces, in torch's own words and dtypes.
TEST(ArraysAgainstTorch, AccumulatesAndScalesAsTorchDoes) {
  Random random(64);
  for (const DType dtype : testing::kFloats) {
    FloatArray sum = random_array(random, dtype, 1000);
    const FloatArray gradient = random_array(random, dtype, 1000);
    const at::Tensor theirs = tensor_of(sum);
    theirs.add_(tensor_of(gradient).mul(0.25));
    write_arrays(kCpu, {{.to = sum.bytes.data(),
                         .to_dtype = dtype,
                         .from = gradient.bytes.data(),
                         .from_dtype = dtype,
                         .count = 1000,
                         .factor1 = 0.25F,
                         .via2 = dtype,
                         .adds = true}});
    FloatArray expected(dtype, 1000);
    std::memcpy(expected.bytes.data(), theirs.data_ptr(), expected.bytes.size());
    EXPECT_EQ(difference(sum, expected), "") << name_of(dtype);
  }
}

}  // namespace
}  // namespace zeroshard
