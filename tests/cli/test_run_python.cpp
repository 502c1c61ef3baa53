// `zeroshard run` with a Python program: which Python, which words, and how ranks of it end.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/run_ranks.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

namespace zeroshard::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNoLauncher =
    "-u OMPI_COMM_WORLD_SIZE -u SLURM_STEP_NUM_TASKS -u WORLD_SIZE -u TORCHELASTIC_RUN_ID "
    "-u OMP_NUM_THREADS -u PYTHONPATH -u MASTER_PORT -u ZEROSHARD_PYTHON ";

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// An environment as pip makes it: bin/zeroshard, and the package's launcher in lib/.
class RunPython : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(root_ / "bin");
    fs::copy_file(ZEROSHARD_BINARY, root_ / "bin/zeroshard");
    fs::create_directories(root_ / "lib/python3.11/site-packages/zeroshard");
    fs::create_directory_symlink(ZEROSHARD_SOURCE_DIR "/python/zeroshard/launcher", package());
    write("script.py", "");
  }

  fs::path package() const { return root_ / "lib/python3.11/site-packages/zeroshard/launcher"; }

  void write(const std::string& name, const std::string& contents) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << contents;
  }

  // A Python that says only how it was called.
  void write_python(const std::string& name, const std::string& says) const {
    write(name, "#!/bin/sh\necho \"" + says + " $*\"\n");
    fs::permissions(root_ / name, fs::perms::owner_all);
  }

  Finished run(const std::string& arguments, const std::string& variables = "") const {
    return run_program("/usr/bin/env", kNoLauncher + variables + " sh -c 'cd " + root_.string() +
                                           " && exec bin/zeroshard run " + arguments + "'");
  }

  void expect_refused(const std::string& arguments, const std::string& says,
                      const std::string& variables = "") const {
    const Finished finished = run(arguments, variables);
    EXPECT_EQ(finished.exit_code, 2) << finished.err;
    EXPECT_EQ(finished.out, "");
    EXPECT_EQ(count(finished.err, "\n"), 1) << finished.err;
    EXPECT_NE(finished.err.find(says), std::string::npos) << finished.err;
  }

 private:
  TemporaryFolder folder_;

 protected:
  const fs::path root_ = folder_.path();
};

TEST_F(RunPython, ThePythonBesideTheProgramIsTaken) {
  write_python("bin/python3", "beside");
  const std::string run_ranks = (package() / "run_ranks.py").string();
  EXPECT_EQ(run("script.py --lr 1").out,
            "beside -E -S " + run_ranks + " --ranks 1 script.py --lr 1\n");
  write_python("other", "other");
  EXPECT_EQ(run("script.py", "ZEROSHARD_PYTHON=./other").out,
            "other -E -S " + run_ranks + " --ranks 1 script.py\n");
}

TEST_F(RunPython, ElseTheOneOnThePathAndItsOwnPackage) {
  fs::remove_all(root_ / "lib");
  write("found/launcher/run_ranks.py", "");
  write("path/python3",
        "#!/bin/sh\n[ \"$1\" = -c ] && echo " + (root_ / "found").string() + " || echo path $*\n");
  fs::permissions(root_ / "path/python3", fs::perms::owner_all);
  const std::string path = "PATH=" + (root_ / "path").string() + ":/usr/bin:/bin";
  EXPECT_EQ(
      run("script.py", path).out,
      "path -E -S " + (root_ / "found/launcher/run_ranks.py").string() + " --ranks 1 script.py\n");
  fs::remove_all(root_ / "found");
  expect_refused("script.py", "[run] this Python has no zeroshard package: ", path);
}

TEST_F(RunPython, Refuses) {
  expect_refused("--ranks 2 missing.py", "[run] no such script: missing.py; give its path");
  expect_refused("--ranks 0 script.py", "[run] --ranks is no number of ranks: 0; give 1 or more");
  expect_refused("--num_gpus -1 script.py", "[run] --num_gpus is no number of ranks: -1");
  expect_refused("--ranks 2 --num_gpus 4 script.py",
                 "[run] --ranks and --num_gpus mean the same: 2 and 4; give one of them");
  expect_refused("--nnodes 2 --node_rank 2 script.py",
                 "[run] --node_rank is none of the hosts: 2 of 2; they count from 0");
  expect_refused("--nnodes 0 script.py", "[run] --nnodes is no number of hosts: 0");
  expect_refused("--hostfile hosts script.py", "zs-deepspeed --hostfile");
  expect_refused("--nnodes 2 true", "are for Python programs: true; name the hosts of other");
  expect_refused("script.py", "[config] no such program: /not/python",
                 "ZEROSHARD_PYTHON=/not/python");
  expect_refused("-m", "PROGRAM");
}

TEST_F(RunPython, RanksFindEachOther) {
  write("script.py",
        "import os, sys\n"
        "e = os.environ\n"
        "names = ['RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'MASTER_ADDR', 'OMP_NUM_THREADS']\n"
        "line = ' '.join(e[n] for n in names) + ' ' + ' '.join(sys.argv[1:])\n"
        "line += ' ' + str(int(e['MASTER_PORT']) > 0)\n"
        "line += ' ' + str(e['PYTHONPATH'].split(':')[0].endswith('zeroshard/_dropin'))\n"
        "open('rank' + e['RANK'], 'w').write(line)\n");
  const Finished finished = run("--ranks 2 script.py -x : y", "OMP_NUM_THREADS=3");
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  for (const std::string rank : {"0", "1"}) {
    std::string line;
    std::getline(std::ifstream(root_ / ("rank" + rank)), line);
    EXPECT_EQ(line, rank + " " + rank + " 2 127.0.0.1 3 -x : y True True");
  }
}

TEST_F(RunPython, OneRanksErrorIsEverybodysEnd) {
  write("script.py",
        "import os, sys, time\n"
        "if os.environ['RANK'] == '1': raise ValueError('rank one is wrong')\n"
        "time.sleep(60)\n");
  const Finished finished = run("--ranks 3 script.py");
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_EQ(count(finished.err, "Traceback"), 1) << finished.err;
  EXPECT_EQ(count(finished.err, "ValueError: rank one is wrong"), 1) << finished.err;
  EXPECT_TRUE(finished.err.ends_with("[run] rank 1 has failed; the other ranks are stopped\n"))
      << finished.err;
  EXPECT_EQ(finished.err.find("rank_main.py"), std::string::npos) << finished.err;
}

TEST_F(RunPython, JoinsWhatMpirunHasStarted) {
  const std::string mpirun =
      "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_LOCAL_RANK=1";
  expect_refused("script.py", "must know where to meet; give --master_addr and --master_port",
                 mpirun);
  write("script.py",
        "import os\n"
        "print(*[os.environ[n] for n in ['RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'MASTER_PORT']])\n");
  EXPECT_EQ(run("--master_addr node1 --master_port 4567 script.py", mpirun).out, "3 1 4 4567\n");
  EXPECT_EQ(run("script.py", mpirun + " MASTER_ADDR=node1 MASTER_PORT=4567").out, "3 1 4 4567\n");
}

TEST(RunRanksCommand, Words) {
  cli::RunRanksRequest request{
      .python = "python3", .run_ranks = "run_ranks.py", .ranks = 4, .command = {"train.py", "-x"}};
  const auto text = [&] {
    return fmt::format("{}", fmt::join(cli::run_ranks_command(request), " "));
  };
  EXPECT_EQ(text(), "python3 -E -S run_ranks.py --ranks 4 train.py -x");
  request.nodes = 2;
  request.node_rank = 1;
  request.master_addr = "node1";
  request.master_port = 29500;
  EXPECT_EQ(text(),
            "python3 -E -S run_ranks.py --ranks 4 --nnodes 2 --node_rank 1 --master_addr node1 "
            "--master_port 29500 train.py -x");
  request.is_module = true;
  request.launch = {.launcher = Launcher::mpirun, .rank = 5, .world_size = 8, .local_rank = 1};
  EXPECT_EQ(text(),
            "python3 -E -S run_ranks.py --join 5 8 1 --master_addr node1 --master_port 29500 "
            "--module train.py -x");
}

}  // namespace
}  // namespace zeroshard::test
