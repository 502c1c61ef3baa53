// The loss in the logits' own memory, against torch's.
#include <cmath>

#include <ATen/ops/allclose.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/models/cross_entropy.h"

namespace zeroshard::models {
namespace {

constexpr std::int64_t kIgnored = -100;

torch::Tensor torchs(const torch::Tensor& logits, const torch::Tensor& targets) {
  return at::cross_entropy_loss(logits, targets, {}, at::Reduction::Mean, kIgnored);
}

// The logits of a leaf, as a model's are the result of an operator.
torch::Tensor ours(const torch::Tensor& leaf, const torch::Tensor& targets) {
  return consuming_cross_entropy(leaf * 1, targets, kIgnored);
}

struct Leaves {
  Leaves(std::int64_t rows, std::int64_t vocabulary)
      : one((4 * at::randn({rows, vocabulary})).requires_grad_()),
        other(one.detach().clone().requires_grad_()),
        targets(at::randint(vocabulary, {rows}, at::kLong)) {}
  torch::Tensor one, other, targets;
};

void expect_equal(const Leaves& leaves, double factor) {
  const torch::Tensor loss = ours(leaves.one, leaves.targets);
  const torch::Tensor expected = torchs(leaves.other, leaves.targets);
  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-5 * expected.item<double>());
  (loss * factor).backward();
  (expected * factor).backward();
  EXPECT_TRUE(at::allclose(leaves.one.grad(), leaves.other.grad(), 1e-4, 1e-8 * factor));
}

TEST(CrossEntropy, AgreesWithTorchs) {
  for (const std::int64_t vocabulary : {2, 7, 256, 5000}) {
    expect_equal(Leaves(33, vocabulary), 1.0);
    expect_equal(Leaves(33, vocabulary), 1024.0);  // as a loss scale does
  }
}

// Their loss and gradient in 16 bits, against torch's in fp32 of the same logits.
void expect_close_in(at::ScalarType dtype, double factor) {
  const Leaves leaves(33, 5000);
  leaves.targets[3] = kIgnored;
  const torch::Tensor narrow = leaves.one.detach().to(dtype).requires_grad_();
  const torch::Tensor wide = narrow.detach().to(at::kFloat).requires_grad_();
  const torch::Tensor loss = ours(narrow, leaves.targets);
  const torch::Tensor expected = torchs(wide, leaves.targets);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-5 * expected.item<double>());
  (loss * factor).backward();
  (expected * factor).backward();
  EXPECT_EQ(narrow.grad().scalar_type(), dtype);
  const double digits = dtype == at::kHalf ? 2e-3 : 1e-2;  // two roundings
  const torch::Tensor found = narrow.grad().to(at::kFloat);
  EXPECT_TRUE(at::allclose(found, wide.grad(), digits, 1e-7 * factor)) << c10::toString(dtype);
  EXPECT_NEAR(found.sum().item<double>(), 0, 4e-3 * factor);  // as near as 16 bits allow
}

TEST(CrossEntropy, SixteenBitLogitsStaySixteenBits) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    expect_close_in(dtype, 1.0);
    expect_close_in(dtype, 1024.0 / 3);  // a factor that 16 bits do not have
  }
}

TEST(CrossEntropy, WorksThroughManyRowsInParts) {
  expect_equal(Leaves(21, 100'000), 1.0);   // ten rows at a time
  expect_equal(Leaves(3, 1'500'000), 1.0);  // more than is taken at a time
}

TEST(CrossEntropy, IgnoredRowsCountForNothing) {
  const Leaves leaves(9, 50);
  leaves.targets[0] = kIgnored;
  leaves.targets[5] = kIgnored;
  expect_equal(leaves, 1.0);
  EXPECT_EQ(leaves.one.grad().abs().sum(1)[5].item<float>(), 0);
}

TEST(CrossEntropy, OfNothingIsNotANumber) {
  const Leaves leaves(4, 10);
  leaves.targets.fill_(kIgnored);
  EXPECT_TRUE(std::isnan(ours(leaves.one, leaves.targets).item<double>()));
}

TEST(CrossEntropy, HoldsNothingButTheLogits) {
  const Leaves leaves(4, 10);
  const torch::Tensor logits = leaves.one * 1;
  const void* const memory = logits.const_data_ptr();
  const torch::Tensor loss = consuming_cross_entropy(logits, leaves.targets, kIgnored);
  EXPECT_EQ(logits.const_data_ptr(), memory);
  EXPECT_TRUE(at::allclose(logits.detach().sum(1), at::ones({4})));  // probabilities now
}

TEST(CrossEntropy, ASecondBackwardIsRefused) {
  const Leaves leaves(4, 10);
  const torch::Tensor loss = ours(leaves.one, leaves.targets);
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_THROW(loss.backward(), InvariantError);
}

}  // namespace
}  // namespace zeroshard::models
