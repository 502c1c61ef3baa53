// Errors between hosts, as who called the operation hears of them: in the words of every backend.
#include <string>

#include <gtest/gtest.h>

#include "zeroshard/comm/faults.h"
#include "zeroshard/comm/launch_words.h"

namespace zeroshard {
namespace {

const OperationTag kTag{.sequence = 17, .operation = Operation::all_gather, .label = "block.3"};

OperationTag between_hosts(const char* label, Operation operation = Operation::all_gather) {
  return {.sequence = 9, .operation = operation, .label = label};
}

std::string told(const CommError& error, const OperationTag& tag = kTag) {
  return format_fault("comm", told_of(error.fault(), tag));
}

TEST(LaunchWords, AreThoseOfTheOperationItself) {
  for (const char* label : {launch_labels::kNext, launch_labels::kMore, launch_labels::kDifferent,
                            launch_labels::kIdentifier, launch_labels::kMeeting}) {
    const OperationTag said = between_hosts(label, Operation::all_reduce);
    EXPECT_EQ(told(rank_gone(1, said)), rank_gone(1, kTag).what());
    EXPECT_EQ(told(rank_failed(1, said)), rank_failed(1, kTag).what());
    EXPECT_EQ(told(rank_ended(1, said)), rank_ended(1, kTag).what());
    EXPECT_EQ(told(waited_too_long(said, std::chrono::milliseconds(300), {1, 2})),
              waited_too_long(kTag, std::chrono::milliseconds(300), {1, 2}).what());
  }
}

// Where the other rank is, its own host has said.
TEST(LaunchWords, LeaveAloneWhatIsSaidOfOthers) {
  const std::string where =
      "rank 1 is silent for 3 s, last in all_gather \"the next launch\" (operation 8)";
  const auto time = std::chrono::milliseconds(300);
  EXPECT_EQ(told(waited_too_long(between_hosts(launch_labels::kNext), time, {1}, where)),
            waited_too_long(kTag, time, {1}, where).what());
}

TEST(LaunchWords, NameTheOperationAtTheEndOfOtherErrors) {
  EXPECT_EQ(told(CommError({.what = "NCCL failed", .value = "why", .remedy = "look"})),
            "[comm] NCCL failed, in all_gather \"block.3\" (operation 17): why; look");
}

TEST(LaunchWords, NameNoOperationWhereThereIsNone) {
  const CommError gone = rank_gone(1, between_hosts(launch_labels::kNext));
  EXPECT_EQ(told(gone, {}), gone.what());
}

}  // namespace
}  // namespace zeroshard
