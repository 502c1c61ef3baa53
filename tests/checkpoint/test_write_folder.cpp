// A folder is there in full, before, during and after its replacement, whoever dies when.

#include <vector>

#include "tests/checkpoint/checkpoint_support.h"
#include "zeroshard/base/log.h"
#include "zeroshard/checkpoint/file.h"
#include "zeroshard/checkpoint/model_folder.h"
#include "zeroshard/checkpoint/unfinished.h"
#include "zeroshard/checkpoint/write_folder.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

void fill(const fs::path& folder, std::string_view text) {
  write_text_file(folder / "config.json", text);
  write_text_file(folder / "model.safetensors", text);
}

void write_folder(const fs::path& target, std::string_view text) {
  FolderWriter writer(target);
  fill(writer.folder(), text);
  writer.finish();
}

std::string text_in(const fs::path& folder) { return bytes_of_file(folder / "config.json"); }

std::ptrdiff_t entries_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

// A process id that belongs to nobody: of a child that has ended.
pid_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

TEST(WriteFolder, AppearsWithFinishAndLeavesNothingElse) {
  const TestFolder folder;
  {
    FolderWriter writer(folder / "out");
    EXPECT_EQ(writer.folder(), folder / ("out.partial-" + std::to_string(::getpid())));
    fill(writer.folder(), "new");
    fs::create_directory(writer.folder() / "sub");
    write_text_file(writer.folder() / "sub/more", "more");
    EXPECT_FALSE(fs::exists(folder / "out"));
    writer.finish();
    EXPECT_THROW(writer.finish(), StateError);
  }
  EXPECT_EQ(text_in(folder / "out"), "new");
  EXPECT_EQ(bytes_of_file(folder / "out/sub/more"), "more");
  EXPECT_EQ(entries_in(folder.path()), 1);
}

TEST(WriteFolder, ReplacesAFolderOfOursAndAnEmptyOne) {
  const TestFolder folder;
  fs::create_directory(folder / "out");
  write_folder(folder / "out/", "first");
  EXPECT_EQ(text_in(folder / "out"), "first");
  put_file(folder / "out/only_in_the_old", "");
  write_folder(folder / "out", "second");
  EXPECT_EQ(text_in(folder / "out"), "second");
  EXPECT_FALSE(fs::exists(folder / "out/only_in_the_old"));
  EXPECT_EQ(entries_in(folder.path()), 1);
}

TEST(WriteFolder, RefusesWhatIsNotOurs) {
  const TestFolder folder;
  fs::create_directory(folder / "thesis");
  put_file(folder / "thesis/config.json", "{}");
  put_file(folder / "file", "text");
  fs::create_directory_symlink(folder / "thesis", folder / "link");
  for (const char* name : {"thesis", "file", "link"}) {
    const std::string message =
        message_thrown<ConfigError>([&] { FolderWriter writer(folder / name); });
    EXPECT_TRUE(has(message, (folder / name).string()));
  }
  EXPECT_TRUE(fs::exists(folder / "thesis/config.json"));
  EXPECT_EQ(entries_in(folder.path()), 3);
  EXPECT_THROW(FolderWriter("/"), ConfigError);
  EXPECT_THROW(FolderWriter(folder / "no/out"), StorageError);
}

TEST(WriteFolder, RefusesWhatBecameSomebodyElsesMeanwhile) {
  const TestFolder folder;
  FolderWriter writer(folder / "out");
  fill(writer.folder(), "new");
  fs::create_directory(folder / "out");
  put_file(folder / "out/precious", "text");
  EXPECT_THROW(writer.finish(), ConfigError);
  EXPECT_EQ(bytes_of_file(folder / "out/precious"), "text");
}

TEST(WriteFolder, AnIncompleteFolderIsNotPutIntoPlace) {
  const TestFolder folder;
  write_folder(folder / "out", "old");
  {
    FolderWriter writer(folder / "out");
    write_text_file(writer.folder() / "config.json", "new");
    EXPECT_THROW(writer.finish(), StateError);
  }
  EXPECT_EQ(text_in(folder / "out"), "old");
  EXPECT_EQ(entries_in(folder.path()), 1);
}

TEST(WriteFolder, AWriterThatDiesLeavesTheOldOneAndTheNextTidiesUp) {
  const TestFolder folder;
  const auto die = [&] {
    die_in_the_middle_of([&] {
      FolderWriter writer(folder / "out");
      fill(writer.folder(), "half");
      ::_exit(0);
    });
  };
  die();
  EXPECT_FALSE(fs::exists(folder / "out"));
  EXPECT_EQ(entries_in(folder.path()), 1) << "the child did not die in the middle";
  write_folder(folder / "out", "old");
  die();
  EXPECT_EQ(text_in(folder / "out"), "old");
  write_folder(folder / "out", "new");
  EXPECT_EQ(text_in(folder / "out"), "new");
  EXPECT_EQ(entries_in(folder.path()), 1);
}

TEST(WriteFolder, TheFallbackReplacesByTwoRenames) {
  const TestFolder folder;
  write_folder(folder / "out", "old");
  fs::create_directory(folder / "new");
  fill(folder / "new", "new");
  const fs::path old = replace_by_two_renames(folder / "new", folder / "out");
  EXPECT_EQ(text_in(folder / "out"), "new");
  EXPECT_EQ(text_in(old), "old");
  EXPECT_THROW(replace_by_two_renames(folder / "missing", folder / "out"), StorageError);
  EXPECT_EQ(text_in(folder / "out"), "new") << "put back where the second rename fails";
}

TEST(WriteFolder, ADeathBetweenTheTwoRenamesIsSetRightByTheNextWriter) {
  const TestFolder folder;
  const std::string dead = std::to_string(dead_process());
  fs::create_directory(folder / ("out.replaced-" + dead));
  fill(folder / ("out.replaced-" + dead), "old");
  fs::create_directory(folder / ("out.partial-" + dead));
  fill(folder / ("out.partial-" + dead), "new");

  EXPECT_EQ(interrupted_replacement(folder / "out"), folder / ("out.replaced-" + dead));
  const std::string message =
      message_thrown<ConfigError>([&] { ModelFolder::open(folder / "out"); });
  EXPECT_TRUE(has(message, "out.replaced-" + dead + " back"));
  {
    std::string told;
    const LogScope log({}, [&](LogLevel, std::string_view line) { told += line; });
    const FolderWriter writer(folder / "out");
    EXPECT_TRUE(has(told, "its last version is back"));
    EXPECT_EQ(text_in(folder / "out"), "old");
    EXPECT_EQ(entries_in(folder.path()), 2);
  }
  EXPECT_TRUE(interrupted_replacement(folder / "out").empty());
}

TEST(WriteFolder, LivingWritersAndOtherNamesAreLeftAlone) {
  const TestFolder folder;
  const std::string living = std::to_string(::getppid());
  for (const std::string& name :
       std::vector<std::string>{"out.partial-" + living, "out.partial-12x", "out.partial-",
                                "out.replaced-" + living, "other.partial-1"}) {
    fs::create_directory(folder / name);
  }
  write_folder(folder / "out", "new");
  EXPECT_EQ(entries_in(folder.path()), 6);

  const FolderWriter first(folder / "two");
  EXPECT_THROW(FolderWriter(folder / "two"), StorageError);
  EXPECT_TRUE(fs::exists(first.folder()));
}

TEST(WriteFolder, FoldersOfAnotherKindHaveOtherMarks) {
  const TestFolder folder;
  for (const char* text : {"1", "2"}) {
    FolderWriter writer(folder / "step", {"manifest.json"});
    write_text_file(writer.folder() / "manifest.json", text);
    writer.finish();
  }
  EXPECT_EQ(bytes_of_file(folder / "step/manifest.json"), "2");
  EXPECT_THROW(FolderWriter(folder / "step"), ConfigError);
}

}  // namespace
}  // namespace zeroshard
