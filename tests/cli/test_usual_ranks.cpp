// How many ranks are started, and planned for, where nobody says: on a machine whose driver knows
// of four GPUs.
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

namespace zeroshard::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFourGpus =
    "-u OMPI_COMM_WORLD_SIZE -u SLURM_STEP_NUM_TASKS -u WORLD_SIZE -u TORCHELASTIC_RUN_ID "
    "-u ZEROSHARD_LOG -u CUDA_VISIBLE_DEVICES LD_LIBRARY_PATH=" ZEROSHARD_FAKE_DRIVER " ";

constexpr const char* kSaid =
    "zeroshard[0]: info: 4 ranks, one for each GPU; --ranks N starts another number, "
    "CUDA_VISIBLE_DEVICES=0,1 leaves GPUs to others\n";

// A build without MPI starts one rank, and says so.
bool starts_several() {
  return run_program(ZEROSHARD_BINARY, "--version").out.find("MPI   none") == std::string::npos;
}

// A folder with `bin/zeroshard`, a training program and an mpirun that say how they were called.
class UsualRanks : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(root_ / "bin");
    fs::copy_file(ZEROSHARD_BINARY, root_ / "bin/zeroshard");
    write_program("bin/zeroshard-train", "alone");
    write_program("mpirun", "mpirun");
    std::ofstream(root_ / "text") << std::string(2000, 'a');
  }

  void write_program(const std::string& name, const std::string& says) const {
    std::ofstream(root_ / name) << "#!/bin/sh\necho " + says + " \"$@\"\n";
    fs::permissions(root_ / name, fs::perms::owner_all);
  }

  Finished run(const std::string& arguments, const std::string& variables = "") const {
    const std::string path = "PATH=" + root_.string() + ":/usr/bin:/bin ";
    return run_program("/usr/bin/env", kFourGpus + path + variables + " sh -c 'cd " +
                                           root_.string() + " && exec bin/zeroshard " + arguments +
                                           "'");
  }

  // Of `train`: that many through mpirun, or one without it.
  int ranks(const std::string& arguments, const std::string& variables = "") const {
    const Finished finished = run("train --data text " + arguments, variables);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    if (finished.out.starts_with("alone ")) return 1;
    const std::size_t at = finished.out.find(" -n ");
    EXPECT_NE(at, std::string::npos) << finished.out;
    return at == std::string::npos ? 0 : std::stoi(finished.out.substr(at + 4));
  }

  const TemporaryFolder folder_;
  const fs::path root_ = folder_.path();
};

TEST_F(UsualRanks, TrainStartsOneForEachGpuAndSaysSo) {
  if (!starts_several()) GTEST_SKIP() << "this build has no MPI";
  const Finished finished = run("train --data text --device cuda");
  EXPECT_EQ(finished.err, kSaid);
  EXPECT_NE(finished.out.find(" -n 4 "), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("--device=cuda"), std::string::npos) << finished.out;
}

TEST_F(UsualRanks, TrainTakesTheGpusThatCudaShows) {
  if (!starts_several()) GTEST_SKIP() << "this build has no MPI";
  EXPECT_EQ(ranks("--device cuda", "CUDA_VISIBLE_DEVICES=3,1"), 2);
  EXPECT_EQ(ranks("--device cuda", "CUDA_VISIBLE_DEVICES=GPU-2a,GPU-0,GPU-1abc"), 3);
  EXPECT_EQ(ranks("--device cuda", "CUDA_VISIBLE_DEVICES=2,7,0"), 1);
  EXPECT_EQ(ranks("--device cuda", "CUDA_VISIBLE_DEVICES="), 1);
  EXPECT_EQ(ranks("--device cuda", "CUDA_VISIBLE_DEVICES=-1"), 1);
}

TEST_F(UsualRanks, OneWhereTheDeviceIsNamed) {
  EXPECT_EQ(ranks("--device cpu"), 1);
  EXPECT_EQ(ranks("--device cuda:1"), 1);
  EXPECT_EQ(run("train --data text --device cpu").err, "") << "nothing was chosen";
}

TEST_F(UsualRanks, WhoSaysANumberGetsIt) {
  EXPECT_EQ(ranks("--device cuda --ranks 1"), 1);
  EXPECT_EQ(ranks("--device cuda --ranks 8"), 8) << "they share";
  EXPECT_EQ(run("train --data text --device cuda --ranks 8").err, "");
  std::ofstream(root_ / "hosts") << "localhost slots=1\n";
  EXPECT_EQ(ranks("--device cuda --hostfile hosts"), 1);
}

TEST_F(UsualRanks, NoMoreThanTheBatchSizesAllow) {
  if (!starts_several()) GTEST_SKIP() << "this build has no MPI";
  const auto ranks_for = [&](const std::string& config) {
    std::ofstream(root_ / "ds.json") << config;
    return ranks("--device cuda --config ds.json");
  };
  EXPECT_EQ(ranks_for(R"({"train_batch_size": 6, "train_micro_batch_size_per_gpu": 2,
                          "gradient_accumulation_steps": 3})"),
            1);
  EXPECT_EQ(ranks_for(R"({"train_batch_size": 6})"), 3);
  EXPECT_EQ(ranks_for(R"({"train_batch_size": 8})"), 4);
  EXPECT_EQ(ranks_for(R"({"train_micro_batch_size_per_gpu": 2})"), 4);
  std::ofstream(root_ / "ds.json") << R"({"train_batch_size": 6})";
  EXPECT_NE(run("train --data text --device cuda --config ds.json")
                .err.find("3 ranks, the most of 4 GPUs for which the batch sizes fit"),
            std::string::npos);
  EXPECT_NE(run("plan --params 1e9 --device cuda --config ds.json")
                .out.find("3 ranks, the most for which the batch sizes fit"),
            std::string::npos);
}

TEST_F(UsualRanks, OneWhereSeveralCannotBeStarted) {
  if (!starts_several()) GTEST_SKIP() << "this build has no MPI";
  fs::create_directories(root_ / "only");
  fs::create_symlink("/bin/sh", root_ / "only/sh");
  const std::string path = "PATH=" + (root_ / "only").string();
  const Finished finished = run("train --data text --device cuda", path);
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_TRUE(finished.out.starts_with("alone ")) << finished.out;
  EXPECT_NE(finished.err.find("1 rank, though there are 4 GPUs: mpirun"), std::string::npos)
      << finished.err;
}

TEST_F(UsualRanks, OneInABuildWithoutMpi) {
  if (starts_several()) GTEST_SKIP() << "this build has MPI";
  EXPECT_EQ(ranks("--device cuda"), 1);
  EXPECT_EQ(run("train --data text --device cuda").err,
            "zeroshard[0]: info: 1 rank, though there are 4 GPUs: this build has no MPI\n");
}

TEST_F(UsualRanks, AnotherLaunchersRanksAreNotMultiplied) {
  if (!starts_several()) GTEST_SKIP() << "this build has no MPI";
  EXPECT_EQ(ranks("--device cuda", "OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0"), 1);
  EXPECT_EQ(ranks("--device cuda", "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0"), 1);
  EXPECT_EQ(ranks("--device cuda", "SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0"), 4)
      << "a shell of SLURM's";
}

TEST_F(UsualRanks, APlanIsForAsMany) {
  const Finished four = run("plan --params 1e9 --device cuda");
  EXPECT_NE(four.out.find("no --world-size: 4 ranks, one for each GPU here"), std::string::npos)
      << four.out << four.err;
  EXPECT_NE(four.out.find("of 80.00 GiB on the device"), std::string::npos) << four.out;
  const Finished two = run("plan --params 1e9 --device cuda", "CUDA_VISIBLE_DEVICES=2,1");
  EXPECT_NE(two.out.find("no --world-size: 2 ranks, one for each GPU here"), std::string::npos);
  EXPECT_NE(two.out.find("of 40.00 GiB on the device"), std::string::npos) << two.out;
  const Finished none = run("plan --params 1e9", "CUDA_VISIBLE_DEVICES=");
  EXPECT_NE(none.out.find("no --device: cpu"), std::string::npos) << none.out;
  EXPECT_NE(none.out.find("no --world-size: 1 rank\n"), std::string::npos) << none.out;
  const Finished elsewhere = run("plan --params 1e9 --device-memory H100");
  EXPECT_NE(elsewhere.out.find("no --world-size: 1 rank\n"), std::string::npos) << elsewhere.out;
}

TEST_F(UsualRanks, MeasuringHasAsManyAsTraining) {
  EXPECT_NE(run("env --measure --device cuda").out.find(" -n 4 "), std::string::npos);
  const std::string two = "CUDA_VISIBLE_DEVICES=0,3";
  EXPECT_NE(run("env --measure --device cuda", two).out.find(" -n 2 "), std::string::npos);
}

}  // namespace
}  // namespace zeroshard::test
