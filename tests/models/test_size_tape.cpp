// Autograd's order with sizes alone, against cases worked out by hand.
#include <gtest/gtest.h>

#include "zeroshard/models/size_ops.h"

namespace zeroshard {
namespace {

constexpr ComputeDevice kGpu{.accelerator = true};

TEST(SizeTape, CountsWholeGranulesUntilTheLastHolderLetsGo) {
  SizeTape tape(512);
  {
    const Memory one = tape.take(1);
    EXPECT_EQ(tape.now(), 512);
    const SizeTensor two = tape.make(200, 4);
    const SizeTensor view = two.as(10);
    EXPECT_EQ(tape.now(), 512 + 1024);
  }
  EXPECT_EQ(tape.now(), 0);
  EXPECT_EQ(tape.peak(), 1536);
}

// y = x W: x is kept; backward has x, y's gradient, x's and W's at once.
TEST(SizeTape, ALinearLayerKeepsItsInput) {
  SizeTape tape(1);
  const SizeOps ops(tape, kGpu, 2);
  SizeTensor x = tape.input(100 * 8, 2);
  SizeTensor y = ops.linear(x, {.inputs = 8, .outputs = 16});
  x.memory = nullptr;
  y.memory = nullptr;
  EXPECT_EQ(tape.now(), 100 * 8 * 2);
  tape.forget_peak();
  tape.backward(y, tape.take(y.bytes()));
  EXPECT_EQ(tape.peak(), 2 * (100 * 8 + 100 * 16 + 100 * 8 + 8 * 16));
  EXPECT_EQ(tape.now(), 2 * 100 * 8) << "the gradient of x";
}

TEST(SizeTape, AFrozenLayerKeepsNothingAndHasNoGradient) {
  SizeTape tape(1);
  const SizeOps ops(tape, kGpu, 2);
  SizeTensor x = tape.input(100 * 8, 2);
  SizeTensor y = ops.linear(x, {.inputs = 8, .outputs = 16, .trains = false});
  x.memory = nullptr;
  y.memory = nullptr;
  EXPECT_EQ(tape.now(), 0);
  tape.backward(y, tape.take(y.bytes()));
  EXPECT_EQ(tape.peak(), 2 * (100 * 8 + 100 * 16));
}

TEST(SizeTape, WithoutAnybodysGradientNothingIsRecorded) {
  SizeTape tape(1);
  const SizeOps frozen(tape, kGpu, 2, false);
  SizeTensor x = frozen.embedding(10, 8, 100);
  x = frozen.linear(x, {.inputs = 8, .outputs = 8, .trains = false});
  EXPECT_FALSE(x.needs_gradient());
  EXPECT_EQ(tape.now(), 10 * 8 * 2);
}

// x + f(x): the gradient is shared by both until f's node has run; then one is added to the other.
TEST(SizeTape, GradientsThatMeetAreAddedInPlace) {
  SizeTape tape(1);
  const SizeOps ops(tape, kGpu, 4);
  SizeTensor x = tape.input(100, 4);
  SizeTensor y = ops.add(x, ops.gelu(x));
  x.memory = nullptr;
  y.memory = nullptr;
  EXPECT_EQ(tape.now(), 400) << "x, which gelu keeps";
  tape.forget_peak();
  tape.backward(y, tape.take(400));
  EXPECT_EQ(tape.peak(), 3 * 400) << "x, the shared gradient, and gelu's";
  EXPECT_EQ(tape.now(), 400);
}

TEST(SizeTape, TheLossLivesInTheMemoryOfTheLogits) {
  SizeTape tape(1);
  const SizeOps ops(tape, kGpu, 2);
  SizeTensor x = tape.input(10 * 8, 2);
  SizeTensor logits = ops.linear(x, {.inputs = 8, .outputs = 1000});
  const SizeTensor loss = ops.consuming_cross_entropy(logits, 10);
  logits.memory = x.memory = nullptr;
  const std::int64_t before = tape.now();
  tape.forget_peak();
  tape.backward(loss, tape.take(4));
  EXPECT_EQ(tape.peak() - before, 2 * (8 * 1000 + 10 * 8) + 4 - 3 * 10 * 8 - 4)
      << "beside the logits only what the head's product makes";
}

}  // namespace
}  // namespace zeroshard
