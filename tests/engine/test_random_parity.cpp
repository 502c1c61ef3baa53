// 200 random settings; a failure prints the seed, which expect_parity() takes again.
#include "tests/engine/random_parity.h"

namespace zeroshard::test {
namespace {

class RandomParity : public testing::TestWithParam<int> {};

TEST_P(RandomParity, StagesAgree) {
  for (int i = 0; i < 20 && !HasFailure(); ++i) {
    expect_parity(static_cast<std::uint64_t>(GetParam() * 20 + i));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomParity, testing::Range(0, 10));

}  // namespace
}  // namespace zeroshard::test
