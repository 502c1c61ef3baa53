// The kernels of the models against torch's operators in fp32, on a GPU.
#include <cmath>
#include <limits>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "zeroshard/device/accelerators.h"
#include "zeroshard/device/backend.h"
#include "zeroshard/models/cross_entropy.h"
#include "zeroshard/models/device_kernels.h"

namespace zeroshard::models {
namespace {

constexpr std::int64_t kIgnored = -100;

class DeviceKernels : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (load_accelerators() == 0) GTEST_SKIP() << missing_reason(DeviceKind::cuda);
  }
  // Two 16-bit roundings, relative.
  static double digits() { return GetParam() == at::kHalf ? 2e-3 : 1e-2; }
  static torch::Tensor numbers(at::IntArrayRef sizes) {
    return (4 * at::randn(sizes, at::kCUDA)).to(GetParam());
  }
};

TEST_P(DeviceKernels, SwigluAndItsGradients) {
  const torch::Tensor gate = numbers({33, 64}).requires_grad_();
  const torch::Tensor up = numbers({33, 64}).requires_grad_();
  const torch::Tensor wide_gate = gate.detach().to(at::kFloat).requires_grad_();
  const torch::Tensor wide_up = up.detach().to(at::kFloat).requires_grad_();
  const torch::Tensor weights = numbers({33, 64});
  const torch::Tensor found = swiglu(gate, up);
  const torch::Tensor expected = at::silu(wide_gate) * wide_up;
  EXPECT_TRUE(at::allclose(found.to(at::kFloat), expected, digits(), 1e-4));
  found.backward(weights);
  expected.backward(weights.to(at::kFloat));
  EXPECT_TRUE(at::allclose(gate.grad().to(at::kFloat), wide_gate.grad(), digits(), 1e-3));
  EXPECT_TRUE(at::allclose(up.grad().to(at::kFloat), wide_up.grad(), digits(), 1e-3));
}

TEST_P(DeviceKernels, CrossEntropyOfAnyVocabulary) {
  for (const std::int64_t vocabulary : {2, 7, 256, 5003, 32000}) {  // with and without whole eights
    const torch::Tensor logits = numbers({37, vocabulary}).requires_grad_();
    const torch::Tensor wide = logits.detach().to(at::kFloat).requires_grad_();
    const torch::Tensor targets =
        at::randint(vocabulary, {37}, at::TensorOptions(at::kLong).device(at::kCUDA));
    targets[5] = kIgnored;
    const torch::Tensor loss = consuming_cross_entropy(logits * 1, targets, kIgnored);
    const torch::Tensor expected =
        at::cross_entropy_loss(wide, targets, {}, at::Reduction::Mean, kIgnored);
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-5 * expected.item<double>());
    (loss * 1000).backward();
    (expected * 1000).backward();
    const torch::Tensor found = logits.grad().to(at::kFloat);
    EXPECT_TRUE(at::allclose(found, wide.grad(), digits(), 1e-4)) << vocabulary;
    EXPECT_EQ(found[5].abs().sum().item<float>(), 0);
  }
}

TEST_P(DeviceKernels, WhatIsNotANumberStaysNone) {
  const torch::Tensor logits = numbers({2, 64});
  logits[0][3] = std::numeric_limits<float>::quiet_NaN();
  const torch::Tensor losses = consume_rows(
      logits, at::zeros({2}, at::TensorOptions(at::kLong).device(at::kCUDA)), kIgnored, 1.0);
  EXPECT_TRUE(std::isnan(losses[0].item<float>()));
  EXPECT_TRUE(std::isfinite(losses[1].item<float>()));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, DeviceKernels, testing::Values(at::kBFloat16, at::kHalf));

}  // namespace
}  // namespace zeroshard::models
