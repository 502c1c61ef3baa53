// `zeroshard checkpoint import`: which Python it starts, with which words. What that does is tested
// in Python (tests/python/test_deepspeed_import.py).
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

namespace zeroshard::test {
namespace {

namespace fs = std::filesystem;

// An environment as pip makes it.
class CheckpointImport : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(root_ / "bin");
    fs::create_directories(root_ / "run");
    fs::copy_file(ZEROSHARD_BINARY, root_ / "bin/zeroshard");
    const fs::path packages = root_ / "lib/python3.11/site-packages";
    fs::create_directories(packages / "zeroshard");
    fs::create_directory_symlink(ZEROSHARD_SOURCE_DIR "/python/zeroshard/launcher",
                                 packages / "zeroshard/launcher");
    std::ofstream(root_ / "bin/python3") << "#!/bin/sh\n[ \"$1\" = -c ] && shift 2\necho \"$*\"\n";
    fs::permissions(root_ / "bin/python3", fs::perms::owner_all);
  }

  Finished run(const std::string& arguments) const {
    return run_program("/usr/bin/env", "-u ZEROSHARD_PYTHON sh -c 'cd " + root_.string() +
                                           " && exec bin/zeroshard checkpoint import " + arguments +
                                           "'");
  }

 private:
  TemporaryFolder folder_;

 protected:
  const fs::path root_ = folder_.path();
};

TEST_F(CheckpointImport, HandsItsWordsToThePackage) {
  const std::string packages = (root_ / "lib/python3.11/site-packages").string();
  EXPECT_EQ(run("run out").out, packages + " run out\n");
  EXPECT_EQ(run("run out --universal --tag step 7").exit_code, 2);
  EXPECT_EQ(run("run out --universal --tag step7").out,
            packages + " run out --tag step7 --universal\n");
}

TEST_F(CheckpointImport, AFolderThatIsNotThereIsSaidBeforePythonStarts) {
  const Finished finished = run("nowhere out");
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_EQ(finished.out, "");
  EXPECT_EQ(
      finished.err,
      "[config] no such folder: nowhere; give the one with DeepSpeed's file `latest`, or that "
      "of one tag\n");
  EXPECT_EQ(run("run").exit_code, 2);
}

TEST_F(CheckpointImport, WithoutAPackageItSaysHowToGetOne) {
  fs::remove_all(root_ / "lib");
  std::ofstream(root_ / "bin/python3") << "#!/bin/sh\n";
  const Finished finished = run("run out");
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_NE(finished.err.find("has no zeroshard package"), std::string::npos) << finished.err;
}

}  // namespace
}  // namespace zeroshard::test
