// Which checkpoint is meant, and what is said where there is none.

#include "tests/checkpoint/checkpoint_support.h"
#include "zeroshard/checkpoint/checkpoint_folder.h"
#include "zeroshard/checkpoint/manifest.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

void put_checkpoint(const fs::path& folder) {
  fs::create_directories(folder);
  put_file(folder / "manifest.json", "{}");
}

template <typename Expected>
std::string refusal_of(const fs::path& folder, const std::string& tag = {}) {
  return message_thrown<Expected>([&] { find_checkpoint(folder, tag); });
}

TEST(CheckpointFolder, IsTheOneThatLatestNamesOrTheOneThatIsNamed) {
  const TestFolder folder;
  put_checkpoint(folder / "global_step1");
  put_checkpoint(folder / "global_step2");
  write_pointer(folder.path(), kLatestFile, "global_step1");
  EXPECT_EQ(find_checkpoint(folder.path()), folder / "global_step1");
  EXPECT_EQ(find_checkpoint(folder.path(), "global_step2"), folder / "global_step2");
  EXPECT_EQ(find_checkpoint(folder / "global_step2"), folder / "global_step2");
  EXPECT_EQ(bytes_of_file(folder / "latest"), "global_step1") << "and no line break";
  put_file(folder / "latest", "global_step2\n");
  EXPECT_EQ(find_checkpoint(folder.path()), folder / "global_step2") << "a person wrote it";
}

TEST(CheckpointFolder, SaysWhatIsThereInstead) {
  const TestFolder folder;
  EXPECT_TRUE(has(refusal_of<ConfigError>(folder / "none"), "no checkpoint here"));
  EXPECT_TRUE(has(refusal_of<ConfigError>(folder.path()), "no checkpoint here"));
  put_checkpoint(folder / "a");
  put_checkpoint(folder / "b");
  EXPECT_TRUE(has(refusal_of<ConfigError>(folder.path()), "no file `latest`"));
  EXPECT_TRUE(has(refusal_of<ConfigError>(folder.path()), "name one of a, b"));
  EXPECT_TRUE(has(refusal_of<ConfigError>(folder.path(), "c"), "there are a, b"));
  EXPECT_TRUE(has(refusal_of<ConfigError>(folder.path(), "../a"), "no tag"));
  put_file(folder / "latest", "c");
  EXPECT_TRUE(
      has(refusal_of<StorageError>(folder.path()), "names a checkpoint that is not there: c"));
  put_file(folder / "latest", "../a");
  EXPECT_TRUE(has(refusal_of<StorageError>(folder.path()), "should hold the tag"));
  put_file(folder / "latest", std::string(5000, 'a'));
  EXPECT_TRUE(has(refusal_of<StorageError>(folder.path()), "larger than"));
}

TEST(CheckpointFolder, KnowsDeepSpeedsAndSaysWhatConvertsThem) {
  const TestFolder folder;
  fs::create_directories(folder / "global_step10");
  put_file(folder / "global_step10/zero_pp_rank_0_mp_rank_00_optim_states.pt", "");
  put_file(folder / "latest", "global_step10");
  EXPECT_TRUE(has(refusal_of<StorageError>(folder.path()), "checkpoint import"));
  EXPECT_TRUE(has(refusal_of<ConfigError>(folder / "global_step10"), "checkpoint import"));
}

// A copy has new times, and touching a file makes nothing newer.
TEST(CheckpointFolder, TheOldestIsTheOneThatWasSavedFirst) {
  const TestFolder folder;
  for (const auto& [tag, when] :
       {std::pair("a", 3000), std::pair("b", 1000), std::pair("c", 2000)}) {
    fs::create_directories(folder / tag);
    put_file(folder / tag / "manifest.json", format_manifest({.tag = tag, .saved_at_ms = when}));
  }
  EXPECT_EQ(tags_in(folder.path()), (std::vector<std::string>{"b", "c", "a"}));
}

TEST(CheckpointFolder, TagsArePlainNames) {
  for (const char* good : {"global_step100", "best model", "1", "checkpoint-7", "a.b"}) {
    EXPECT_TRUE(is_tag(good)) << good;
  }
  for (const std::string bad : {"", ".", "..", "a/b", ".hidden", "x.partial-12", "x.replaced-1"}) {
    EXPECT_FALSE(is_tag(bad)) << bad;
  }
  EXPECT_FALSE(is_tag(std::string(201, 'x')));
  EXPECT_FALSE(is_tag(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace zeroshard
