// Masters in two halves have the bits of whole ones, in every instruction set, whatever happens.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/optim/optim_support.h"
#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

using testing::all_optimizers;
using testing::difference;
using testing::in_halves;
using testing::made_whole;
using testing::Random;
using testing::settled;
using testing::States;

class HalvedMasters : public ::testing::Test {
 protected:
  // Both for some steps, in spans that are cut at random.
  void expect_same_bits(const OptimizerOptions& options, const States& start, int steps, Isa isa) {
    States whole = settled(start), halved = in_halves(whole);
    ASSERT_EQ(difference(made_whole(halved), whole), "") << "before the first step";
    for (std::int64_t step = 1; step <= steps; ++step) {
      const StepScalars scalars{.gradient_factor = 0.37F, .step = step};
      const std::int64_t cut = random_.between(0, start.count());
      update_span(options, whole.span(0, start.count()), scalars, pool_, isa);
      update_span(options, halved.span(0, cut), scalars, pool_, isa);
      update_span(options, halved.span(cut, start.count()), scalars, pool_, isa);
      ASSERT_EQ(difference(made_whole(halved), whole), "")
          << name_of(isa) << ", optimizer " << options.index() << ", step " << step << ", gradient "
          << name_of(start.gradient_dtype);
      std::shuffle(whole.gradient32.begin(), whole.gradient32.end(), shuffler_);
      std::shuffle(whole.gradient16.begin(), whole.gradient16.end(), shuffler_);
      halved.gradient32 = whole.gradient32;
      halved.gradient16 = whole.gradient16;
    }
  }

  Random random_{91};
  std::mt19937_64 shuffler_{92};
  ThreadPool pool_{2};
};

TEST_F(HalvedMasters, ManyStepsOfEveryOptimizer) {
  for (const OptimizerOptions& options : all_optimizers()) {
    for (const DType gradient : testing::kFloats) {
      for (const Isa isa : available_isas()) {
        const std::int64_t count = random_.between(1, 3000);
        expect_same_bits(options, plausible_states(random_, count, gradient, DType::bf16), 25, isa);
      }
    }
  }
}

TEST_F(HalvedMasters, FromAnyBitsAndAtEverySize) {
  for (std::int64_t count = 1; count <= 130; ++count) {
    for (const OptimizerOptions& options : all_optimizers()) {
      const auto isas = available_isas();
      const Isa isa = isas[static_cast<std::size_t>(random_.between(0, std::ssize(isas) - 1))];
      expect_same_bits(options, wild_states(random_, count, random_.dtype(), DType::bf16), 3, isa);
    }
  }
}

// An update that moves nothing still settles: for each pattern of the upper half, all lower halves
// near a tie, a carry and nothing, and some others.
TEST_F(HalvedMasters, UpdatesSettleEveryKindOfPattern) {
  States start{.gradient_dtype = DType::fp32, .parameter_dtype = DType::bf16};
  for (std::uint32_t upper = 0; upper < 0x10000U; ++upper) {
    for (const std::uint32_t low : {0U, 1U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      start.master.push_back(std::bit_cast<float>((upper << 16U) + low));
    }
    start.master.push_back(std::bit_cast<float>((upper << 16U) + (random_.bits() & 0xFFFFU)));
  }
  start.gradient32.resize(start.master.size());
  start.gradient16.resize(start.master.size());
  start.parameter.resize(start.master.size());
  for (const Isa isa : available_isas()) {
    States whole = start, expected = settled(start);
    update_span(SgdOptions{.lr = 0.0}, whole.span(0, start.count()), {}, pool_, isa);
    for (std::size_t i = 0; i < start.master.size(); ++i) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(expected.master[i]);
      if ((bits & 0x7F800000U) != 0) continue;  // subnormals count as zero
      expected.master[i] = std::bit_cast<float>(bits & 0x80000000U);
      expected.parameter[i] = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
    }
    ASSERT_EQ(difference(whole, expected), "") << name_of(isa);
    expect_same_bits(SgdOptions{.lr = 0.0}, start, 2, isa);
  }
}

// With fp16 parameters, and with none, a master is what the rule of its optimizer gives.
TEST_F(HalvedMasters, OnlyMastersOfBf16AreSettled) {
  const float tie = std::bit_cast<float>(0x3F808000U), moved = std::bit_cast<float>(0x3F807FFFU);
  for (const DType dtype : testing::kFloats) {
    States states{.gradient_dtype = DType::fp32, .parameter_dtype = dtype};
    states.gradient32 = {0.0F};
    states.master = {tie};
    states.first = states.second = {0.0F};
    states.parameter = {0};
    update_span(AdamOptions{}, states.span(0, 1), {}, pool_);
    EXPECT_EQ(states.master[0], dtype == DType::bf16 ? moved : tie) << name_of(dtype);
  }
}

TEST_F(HalvedMasters, NothingOutsideTheSpanIsTouched) {
  for (std::int64_t count = 0; count < 70; ++count) {
    const States before =
        in_halves(plausible_states(random_, count + 40, DType::bf16, DType::bf16));
    States after = before;
    update_span(AdamOptions{}, after.span(17, 17 + count), {}, pool_);
    for (std::size_t i = 0; i < after.low.size(); ++i) {
      if (i >= 17 && i < 17 + static_cast<std::size_t>(count)) continue;
      ASSERT_EQ(after.low[i], before.low[i]) << count << ", " << i;
      ASSERT_EQ(after.parameter[i], before.parameter[i]) << count << ", " << i;
    }
  }
}

TEST_F(HalvedMasters, AskForABf16ParameterAndNoWholeMaster) {
  States states = in_halves(plausible_states(random_, 5, DType::fp32, DType::bf16));
  const UpdateSpan fine = states.span(0, 5);
  UpdateSpan span = fine;
  span.parameter = nullptr;
  EXPECT_THROW(update_span(SgdOptions{}, span, {}, pool_), InvariantError);
  span = fine;
  span.parameter_dtype = DType::fp16;
  EXPECT_THROW(update_span(SgdOptions{}, span, {}, pool_), InvariantError);
  span = fine;
  span.master = states.master.data();
  EXPECT_THROW(update_span(SgdOptions{}, span, {}, pool_), InvariantError);
  EXPECT_NO_THROW(update_span(SgdOptions{}, fine, {}, pool_));
}

}  // namespace
}  // namespace zeroshard
