// Files that grow, and what happens when they cannot.
#include <cerrno>
#include <csignal>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/monitor/monitor_support.h"
#include "zeroshard/monitor/file_writer.h"

namespace zeroshard {
namespace {

using testing::read_text;
using testing::storage_error_of;
using testing::TemporaryFolder;
using testing::write_text;

TEST(FileWriter, FlushMakesItReadable) {
  const TemporaryFolder folder;
  FileWriter file(folder / "log");
  EXPECT_TRUE(file.was_empty());
  file.append("one\n");
  EXPECT_EQ(read_text(folder / "log"), "");
  file.flush();
  EXPECT_EQ(read_text(folder / "log"), "one\n");
  file.append("two\n");
  file.close();
  file.close();
  EXPECT_EQ(read_text(folder / "log"), "one\ntwo\n");
}

TEST(FileWriter, AppendsOrReplaces) {
  const TemporaryFolder folder;
  write_text(folder / "log", "old\n");
  {
    FileWriter file(folder / "log", {.append = true});
    EXPECT_FALSE(file.was_empty());
    file.append("new\n");
  }
  EXPECT_EQ(read_text(folder / "log"), "old\nnew\n");
  { FileWriter file(folder / "log"); }
  EXPECT_EQ(read_text(folder / "log"), "");
}

TEST(FileWriter, EndsALineThatWasCutShort) {
  const TemporaryFolder folder;
  for (const char* old : {"whole\ncut", "whole\ncut\n"}) {
    write_text(folder / "log", old);
    FileWriter file(folder / "log", {.append = true, .whole_lines = true});
    file.append("next\n");
    file.close();
    EXPECT_EQ(read_text(folder / "log"), "whole\ncut\nnext\n");
  }
}

TEST(FileWriter, AMovedFileIsWrittenOnce) {
  const TemporaryFolder folder;
  {
    FileWriter first(folder / "log");
    first.append("text");
    FileWriter second(std::move(first));
    second.append(" and more");
  }
  EXPECT_EQ(read_text(folder / "log"), "text and more");
}

TEST(FileWriter, ManyBytesComeThrough) {
  const TemporaryFolder folder;
  std::string all;
  FileWriter file(folder / "log");
  for (int i = 0; i < 50000; ++i) {
    const std::string line = std::to_string(i) + "\n";
    all += line;
    file.append(line);
  }
  file.close();
  EXPECT_EQ(read_text(folder / "log"), all);
}

TEST(FileWriter, MakesFoldersWhereAsked) {
  const TemporaryFolder folder;
  const std::string path = folder / "a/b/log";
  EXPECT_EQ(storage_error_of([&] { FileWriter file(path); }),
            "[storage] cannot open the file: " + path +
                " (No such file or directory); check that the path and its folder exist");
  FileWriter(path, {.make_folders = true}).append("x");
  EXPECT_EQ(read_text(path), "x");
}

TEST(FileWriter, AFullDiskIsOneSentence) {
  FileWriter file("/dev/full", {.append = true, .whole_lines = true});
  file.append("text");
  const std::string expected =
      "[storage] cannot write to the file: /dev/full (No space left on device); free some space or "
      "write to another disk";
  EXPECT_EQ(storage_error_of([&] { file.flush(); }), expected);
  EXPECT_EQ(storage_error_of([&] { file.close(); }), expected) << "it may be tried again";
}

// A limit on the size of files stands for a disk that is full in the middle of a line.
class NoRoomBeyond {
 public:
  explicit NoRoomBeyond(rlim_t bytes) : former_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &former_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = former_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~NoRoomBeyond() {
    setrlimit(RLIMIT_FSIZE, &former_);
    std::signal(SIGXFSZ, former_handler_);
  }
  NoRoomBeyond(const NoRoomBeyond&) = delete;
  NoRoomBeyond& operator=(const NoRoomBeyond&) = delete;

 private:
  rlimit former_{};
  void (*former_handler_)(int);
};

TEST(FileWriter, AFullDiskLeavesWholeLines) {
  const TemporaryFolder folder;
  const std::string path = folder / "lines";
  FileWriter file(path, {.append = true, .whole_lines = true});
  file.append("first line\n");
  file.flush();
  {
    const NoRoomBeyond full(25);
    file.append("second\nthird line\n");
    EXPECT_NE(storage_error_of([&] { file.flush(); }), "");
    EXPECT_EQ(read_text(path), "first line\nsecond\n") << "no half of the third";
    EXPECT_NE(storage_error_of([&] { file.flush(); }), "") << "it may be tried again";
    EXPECT_EQ(read_text(path), "first line\nsecond\n");
  }
  file.append("fourth\n");
  file.flush();
  EXPECT_EQ(read_text(path), "first line\nsecond\nthird line\nfourth\n") << "room again";
}

TEST(FileWriter, MemoryStaysBoundedOnAFullDisk) {
  FileWriter file("/dev/full");
  const std::string text(1000, 'x');
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    refused += storage_error_of([&] { file.append(text); }).empty() ? 0 : 1;
  }
  EXPECT_GE(refused, 900) << "beyond 64 KiB nothing more is taken";
}

TEST(FileWriter, NeitherFoldersNorFilesAsFolders) {
  const TemporaryFolder folder;
  EXPECT_EQ(storage_error_of([&] { FileWriter file(folder.path()); }),
            "[storage] cannot open the file: " + folder.path() +
                " (Is a directory); this is a folder: name a file in it");
  write_text(folder / "file", "");
  const std::string below = folder / "file/log";
  EXPECT_NE(storage_error_of([&] {
              FileWriter file(below, {.make_folders = true});
            }).find("a part of the path is a file: choose another path"),
            std::string::npos);
}

// Root may write everywhere, so where the tests run as root this one becomes somebody else.
TEST(FileWriter, AFolderThatIsNotOurs) {
  const TemporaryFolder folder;
  std::filesystem::permissions(
      folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const bool root = geteuid() == 0;
  if (root) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  const std::string error = storage_error_of([&] { FileWriter file(folder / "log"); });
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  EXPECT_EQ(error, "[storage] cannot open the file: " + (folder / "log") +
                       " (Permission denied); check the permissions or choose another folder");
}

// A limit on the file's size stops a write in the middle; then there is room again.
TEST(FileWriter, GoesOnAtTheByteWhereItFailed) {
  const TemporaryFolder folder;
  FileWriter file(folder / "log");
  rlimit former{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &former), 0);
  const auto former_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit tight = former;
  tight.rlim_cur = 10;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  file.append("0123456789abcdef");
  const std::string error = storage_error_of([&] { file.flush(); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &former), 0);
  std::signal(SIGXFSZ, former_handler);
  EXPECT_NE(error.find("ulimit -f"), std::string::npos) << error;
  EXPECT_EQ(read_text(folder / "log"), "0123456789");
  file.append("!");
  file.flush();
  EXPECT_EQ(read_text(folder / "log"), "0123456789abcdef!");
}

TEST(ReplaceFile, LeavesTheOldOrTheNewOne) {
  const TemporaryFolder folder;
  write_text(folder / "file", "old");
  replace_file(folder / "file", "new");
  EXPECT_EQ(read_text(folder / "file"), "new");
  EXPECT_EQ(testing::names_in(folder.path()), std::vector<std::string>{"file"});
  EXPECT_NE(storage_error_of([&] { replace_file(folder / "no/file", "x"); }), "");
  EXPECT_NE(storage_error_of([&] { replace_file(folder.path(), "x"); }), "");
}

TEST(ReplaceFile, ADeviceIsWrittenToAndNotReplaced) {
  EXPECT_NE(storage_error_of([] { replace_file("/dev/full", "x"); }).find("No space left"),
            std::string::npos);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

}  // namespace
}  // namespace zeroshard
