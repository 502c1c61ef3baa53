#include <gtest/gtest.h>

#include "tests/base/env_scope.h"
#include "zeroshard/base/held_instructions.h"

namespace zeroshard {
namespace {

bool held_with(const char* value) {
  const test::EnvScope scope(EnvVar::kTorchCpu, value);
  return held_below_avx512();
}

TEST(HeldInstructions, TorchsNamesOfOlderInstructionSetsHoldUs) {
  EXPECT_TRUE(held_with("avx2"));
  EXPECT_TRUE(held_with("default"));
}

TEST(HeldInstructions, AnythingElseDoesNot) {
  EXPECT_FALSE(held_with("avx512"));
  EXPECT_FALSE(held_with("avx512_vec256"));
  EXPECT_FALSE(held_with(""));
}

}  // namespace
}  // namespace zeroshard
