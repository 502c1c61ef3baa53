// The same as test_killed_saves.cpp, five hundred times.

#include "tests/checkpoint/killed_saves.h"

namespace zeroshard {
namespace {

TEST(KilledSaves, LeaveTheLastCompleteOneFiveHundredTimes) {
  KilledSaves saves(190);
  for (std::size_t kill = 0; kill < 500; ++kill) {
    ASSERT_EQ(saves.kill_once(kSaveWays[kill % kSaveWays.size()]), "") << "after kill " << kill;
    if (kill % 5 != 4) continue;
    ASSERT_EQ(saves.save_once(), "") << "after kill " << kill;
  }
  EXPECT_GT(saves.cut_short(), 0) << "no kill came between two renames";
  EXPECT_GT(saves.complete(), 100) << "they were all killed before they had saved anything";
}

}  // namespace
}  // namespace zeroshard
