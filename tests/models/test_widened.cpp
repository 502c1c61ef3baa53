// 16-bit products by way of fp32, against fp32 itself and against torch's 16-bit operators.
#include <ATen/ops/allclose.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "zeroshard/models/widened.h"

namespace zeroshard::models {
namespace {

struct Case {
  explicit Case(at::ScalarType dtype, bool with_bias = true)
      : x(leaf({3, 5, 16}, dtype)), weight(leaf({8, 16}, dtype)) {
    if (with_bias) bias = leaf({8}, dtype);
  }

  static torch::Tensor leaf(at::IntArrayRef sizes, at::ScalarType dtype) {
    return at::randn(sizes, at::kFloat).to(dtype).requires_grad_();
  }

  torch::Tensor x, weight, bias;
};

// The same values, exactly, as fp32 leaves.
torch::Tensor as_fp32(const torch::Tensor& tensor) {
  return tensor.defined() ? tensor.detach().to(at::kFloat).requires_grad_() : tensor;
}

bool same(const torch::Tensor& one, const torch::Tensor& other) {
  return one.scalar_type() == other.scalar_type() && one.equal(other);
}

class Widened : public ::testing::TestWithParam<at::ScalarType> {};

// Rounded once, from the fp32 result: nothing is lost in between.
TEST_P(Widened, IsTheRoundedResultOfFp32) {
  for (const bool with_bias : {true, false}) {
    const Case narrow(GetParam(), with_bias);
    const torch::Tensor x = as_fp32(narrow.x), weight = as_fp32(narrow.weight);
    const torch::Tensor bias = as_fp32(narrow.bias);
    const torch::Tensor out = widened_linear(narrow.x, narrow.weight, narrow.bias);
    const torch::Tensor expected = at::linear(x, weight, bias);
    EXPECT_TRUE(same(out, expected.to(GetParam())));

    const torch::Tensor gradient = at::randn(out.sizes()).to(GetParam());
    out.backward(gradient);
    expected.backward(gradient.to(at::kFloat));
    EXPECT_TRUE(same(narrow.x.grad(), x.grad().to(GetParam())));
    EXPECT_TRUE(same(narrow.weight.grad(), weight.grad().to(GetParam())));
    if (!with_bias) continue;
    EXPECT_TRUE(same(narrow.bias.grad(), bias.grad().to(GetParam())));
  }
}

TEST_P(Widened, AgreesWithTorchsOwnOperator) {
  const Case one(GetParam());
  const torch::Tensor ours = widened_linear(one.x, one.weight, one.bias);
  const torch::Tensor torchs = at::linear(one.x, one.weight, one.bias);
  const double step = GetParam() == at::kHalf ? 0x1p-10 : 0x1p-7;
  EXPECT_TRUE(at::allclose(ours.to(at::kFloat), torchs.to(at::kFloat), 2 * step, 2 * step));
}

// A frozen weight, or an input that needs none, costs no product.
TEST_P(Widened, GivesOnlyTheGradientsThatAreNeeded) {
  const Case frozen(GetParam());
  frozen.weight.set_requires_grad(false);
  widened_linear(frozen.x, frozen.weight, frozen.bias).sum().backward();
  EXPECT_TRUE(frozen.x.grad().defined());
  EXPECT_FALSE(frozen.weight.grad().defined());

  const Case first(GetParam());
  first.x.set_requires_grad(false);
  widened_linear(first.x, first.weight, first.bias).sum().backward();
  EXPECT_FALSE(first.x.grad().defined());
  EXPECT_TRUE(first.weight.grad().defined());
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Widened, ::testing::Values(at::kBFloat16, at::kHalf),
                         [](const auto& each) { return std::string(c10::toString(each.param)); });

TEST(Widens, Fp32Never) { EXPECT_FALSE(widens(at::randn({2}))); }

}  // namespace
}  // namespace zeroshard::models
