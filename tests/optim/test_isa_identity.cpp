// The same bits from every instruction set, for every cut of a span and every number of threads.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/optim/optim_support.h"
#include "zeroshard/base/held_instructions.h"

namespace zeroshard {
namespace {

using testing::all_optimizers;
using testing::difference;
using testing::Random;
using testing::States;

using MakeStates = States (*)(Random&, std::int64_t, DType, DType);

// Updates copies of `start` in every instruction set and compares them with the scalar one.
void expect_same_bits(const OptimizerOptions& options, const States& start, std::int64_t step) {
  ThreadPool alone(1);
  const StepScalars scalars{.gradient_factor = 0.37F, .step = step};
  States expected = start;
  update_span(options, expected.span(0, expected.count()), scalars, alone, Isa::scalar);
  for (const Isa isa : available_isas()) {
    States states = start;
    update_span(options, states.span(0, states.count()), scalars, alone, isa);
    EXPECT_EQ(difference(states, expected), "")
        << name_of(isa) << ", optimizer " << options.index() << ", count " << start.count()
        << ", step " << step << ", gradient " << name_of(start.gradient_dtype) << ", parameter "
        << name_of(start.parameter_dtype);
  }
}

class IsaIdentity : public ::testing::TestWithParam<MakeStates> {};

TEST_P(IsaIdentity, EveryOptimizerAndDtype) {
  Random random(11);
  for (const OptimizerOptions& options : all_optimizers()) {
    for (const DType gradient : testing::kFloats) {
      for (const DType parameter : testing::kFloats) {
        expect_same_bits(options, GetParam()(random, 777, gradient, parameter), 1);
        expect_same_bits(options, GetParam()(random, 333, gradient, parameter), 5);
      }
    }
  }
}

TEST_P(IsaIdentity, EverySizeUpTo200) {
  Random random(12);
  const auto optimizers = all_optimizers();
  for (std::int64_t count = 0; count <= 200; ++count) {
    for (const OptimizerOptions& options : optimizers) {
      const States start = GetParam()(random, count, random.dtype(), random.dtype());
      expect_same_bits(options, start, random.between(1, 3));
    }
  }
}

TEST_P(IsaIdentity, CutsAndThreads) {
  Random random(13);
  ThreadPool alone(1), three(3);
  for (const OptimizerOptions& options : all_optimizers()) {
    const States start = GetParam()(random, 70'003, random.dtype(), random.dtype());
    const StepScalars scalars{.gradient_factor = 0.5F, .step = 2};
    States whole = start, threaded = start, cut = start;
    update_span(options, whole.span(0, whole.count()), scalars, alone);
    update_span(options, threaded.span(0, threaded.count()), scalars, three);
    for (std::int64_t begin = 0; begin < cut.count();) {
      const std::int64_t end = std::min(cut.count(), begin + random.between(0, 20'000));
      update_span(options, cut.span(begin, end), scalars,
                  random.between(0, 1) == 1 ? alone : three);
      begin = end;
    }
    EXPECT_EQ(difference(threaded, whole), "") << "threads, optimizer " << options.index();
    EXPECT_EQ(difference(cut, whole), "") << "cuts, optimizer " << options.index();
  }
}

// Long spans write their parameters past the caches, where those begin at a cache line.
TEST_P(IsaIdentity, LongSpans) {
  Random random(14);
  ThreadPool three(3);
  constexpr std::int64_t kCount = (1 << 20) + 1037, kHalf = kCount / 2;
  for (const DType parameter : {DType::bf16, DType::fp16}) {
    const States start = GetParam()(random, kCount + 32, DType::bf16, parameter);
    const StepScalars scalars{.step = 2};
    for (const Isa isa : available_isas()) {
      States whole = start, cut = start;
      const auto behind = reinterpret_cast<std::uintptr_t>(whole.parameter.data()) % 64 / 2;
      const auto begin = static_cast<std::int64_t>((32 - behind) % 32);
      update_span(LionOptions{}, whole.span(begin, begin + kCount), scalars, three, isa);
      update_span(LionOptions{}, cut.span(begin, begin + kHalf), scalars, three, isa);
      update_span(LionOptions{}, cut.span(begin + kHalf, begin + kCount), scalars, three, isa);
      EXPECT_EQ(difference(whole, cut), "") << name_of(isa) << ", " << name_of(parameter);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(States, IsaIdentity,
                         ::testing::Values(&testing::plausible_states, &testing::wild_states));

TEST(Isa, ScalarIsAlwaysThereAndTheBestIsAvailable) {
  EXPECT_EQ(available_isas().front(), Isa::scalar);
  EXPECT_TRUE(is_available(best_isa()));
  if (!held_below_avx512()) {
    EXPECT_EQ(available_isas().back(), best_isa());
  } else {
    EXPECT_NE(best_isa(), Isa::avx512);
  }
}

}  // namespace
}  // namespace zeroshard
