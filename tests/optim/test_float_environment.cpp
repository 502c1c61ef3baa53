// What a caller has done to its thread's rounding changes nothing.
#include <cfenv>

#include <gtest/gtest.h>

#include "tests/optim/optim_support.h"
#include "zeroshard/optim/sum_of_squares.h"

namespace zeroshard {
namespace {

using testing::Random;
using testing::States;

struct Rounding {
  explicit Rounding(int mode) : saved(std::fegetround()) { std::fesetround(mode); }
  ~Rounding() { std::fesetround(saved); }
  const int saved;
};

TEST(FloatEnvironment, CallersRoundingChangesNoBitAndIsGivenBack) {
  Random random(61);
  ThreadPool pool(1);
  const States start = wild_states(random, 1001, DType::bf16, DType::fp16);
  States expected = start, states = start;
  update_span(AdamOptions{}, expected.span(0, start.count()), {}, pool);
  const double sum = sum_of_squares(start.first.data(), DType::fp32, 100, pool);
  {
    const Rounding upward(FE_UPWARD);
    update_span(AdamOptions{}, states.span(0, start.count()), {}, pool);
    EXPECT_EQ(std::fegetround(), FE_UPWARD);
    const double same = sum_of_squares(start.first.data(), DType::fp32, 100, pool);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(same), std::bit_cast<std::uint64_t>(sum));
  }
  EXPECT_EQ(difference(states, expected), "");
}

}  // namespace
}  // namespace zeroshard
