// kill -9 at any instant of a save leaves the last complete checkpoint.

#include "tests/checkpoint/killed_saves.h"

namespace zeroshard {
namespace {

TEST(KilledSaves, LeaveTheLastCompleteOne) {
  KilledSaves saves(19);
  for (std::size_t kill = 0; kill < 20; ++kill) {
    ASSERT_EQ(saves.kill_once(kSaveWays[kill % kSaveWays.size()]), "") << "after kill " << kill;
    if (kill % 5 != 4) continue;
    ASSERT_EQ(saves.save_once(), "") << "after kill " << kill;
  }
  EXPECT_GT(saves.complete(), 3) << "they were all killed before they had saved anything";
}

}  // namespace
}  // namespace zeroshard
