// `zeroshard run` where no ranks are started: what it becomes, and what it refuses.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/mpirun.h"
#include "tests/support/run_program.h"

namespace zeroshard::test {
namespace {

// With these variables, and none that another launcher may have set around the tests.
Finished zeroshard(const std::string& variables, const std::string& arguments) {
  return run_program("/usr/bin/env",
                     "-u OMPI_COMM_WORLD_SIZE -u SLURM_STEP_NUM_TASKS -u WORLD_SIZE "
                     "-u TORCHELASTIC_RUN_ID " +
                         variables + " " ZEROSHARD_BINARY " " + arguments);
}

void expect_refused(const Finished& finished, const std::string& says) {
  EXPECT_EQ(finished.exit_code, 2) << finished.err;
  EXPECT_EQ(finished.out, "");
  EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
  EXPECT_NE(finished.err.find(says), std::string::npos) << finished.err;
}

TEST(RunVerb, OneRankIsTheProgramItself) {
  const Finished finished = zeroshard("", "run sh -c 'echo \"$0 $1\"; exit 7' --ranks --help");
  EXPECT_EQ(finished.exit_code, 7);
  EXPECT_EQ(finished.out, "--ranks --help\n");
}

TEST(RunVerb, JoinsWhatMpirunHasStarted) {
  const std::string variables =
      "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_LOCAL_RANK=3";
  EXPECT_EQ(zeroshard(variables, "run echo joined").out, "joined\n");
  EXPECT_EQ(zeroshard(variables, "run --ranks 4 echo joined").out, "joined\n");
  expect_refused(zeroshard(variables, "run --ranks 2 echo joined"),
                 "--ranks differs from what mpirun has started: --ranks 2, 4 ranks");
}

TEST(RunVerb, UnderTorchrunOneSentence) {
  expect_refused(zeroshard("TORCHELASTIC_RUN_ID=x RANK=1 WORLD_SIZE=2 LOCAL_RANK=1", "run true"),
                 "called by torchrun as rank 1 of 2; call it once, without torchrun: zeroshard run "
                 "--ranks 2");
}

TEST(RunVerb, RefusesWhatCannotRun) {
  expect_refused(zeroshard("", "run"), "PROGRAM");
  expect_refused(zeroshard("", "run --ranks 0 true"), "--ranks");
  expect_refused(zeroshard("", "run --ranks 2 ./not_there"), "no such program: ./not_there");
  expect_refused(zeroshard("", "run --ranks 2 --hostfile /not/there true"),
                 "no such hostfile: /not/there");
  expect_refused(zeroshard("PATH=/var/empty", "run --ranks 2 /bin/true"),
                 "no such program: mpirun; install Open MPI");
}

TEST(RunVerb, TheGuardIsNotForPeople) {
  EXPECT_EQ(zeroshard("", "--help").out.find("guard"), std::string::npos);
  EXPECT_EQ(zeroshard("", "completion bash").out.find("guard"), std::string::npos);
}

TEST(RunVerb, TheGuardHandsOnTheExitCode) {
  EXPECT_EQ(zeroshard("", "guard sh -c 'exit 9'").exit_code, 9);
  const Finished killed = zeroshard("RANK=3", "guard sh -c 'kill -9 $$'");
  EXPECT_EQ(killed.exit_code, 128 + 9);
  EXPECT_EQ(killed.err, "[comm] rank 3 was ended by signal 9 (Killed)\n");
}

TEST(RunVerb, OfOneStreamTheOrderIsKept) {
  const Finished finished = zeroshard("", "guard --one-stream sh -c 'echo a; echo b >&2; echo c'");
  EXPECT_EQ(finished.exit_code, 0);
  EXPECT_EQ(finished.out, "");
  EXPECT_EQ(finished.err, "a\nb\nc\n");
}

TEST(RunVerb, MpirunsCommandLine) {
  cli::MpirunRequest request{.ranks = 3,
                             .exports = {"OMP_NUM_THREADS"},
                             .guardian = "/opt/zeroshard",
                             .command = {"./train", "--steps", "7"}};
  const auto text = [&] { return fmt::format("{}", fmt::join(cli::mpirun_command(request), " ")); };
  EXPECT_TRUE(text().ends_with(" -n 3 /opt/zeroshard guard ./train --steps 7")) << text();
  EXPECT_EQ(text().find("-x"), std::string::npos);
  request.one_stream = true;
  EXPECT_TRUE(text().ends_with(" guard --one-stream ./train --steps 7")) << text();
  request.hostfile = "hosts";
  EXPECT_NE(text().find(" --hostfile hosts -x OMP_NUM_THREADS -n 3 "), std::string::npos) << text();
}

}  // namespace
}  // namespace zeroshard::test
