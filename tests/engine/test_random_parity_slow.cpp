// 5,000 random settings.
#include "tests/engine/random_parity.h"

namespace zeroshard::test {
namespace {

class ManyParities : public testing::TestWithParam<int> {};

TEST_P(ManyParities, StagesAgree) {
  for (int i = 0; i < 100 && !HasFailure(); ++i) {
    expect_parity(static_cast<std::uint64_t>(1000 + GetParam() * 100 + i));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ManyParities, testing::Range(0, 50));

}  // namespace
}  // namespace zeroshard::test
