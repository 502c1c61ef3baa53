// One row per way of starting: the variables that are set, and what is read from them.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/base/env_scope.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/launch.h"

namespace zeroshard {
namespace {

using test::EnvScope;

// These and none of the others.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& variables) {
    for (const EnvVarInfo& info : all_env_vars()) {
      if (info.var == EnvVar::kPath) continue;
      const auto found = variables.find(info.name);
      // Empty counts as unset.
      const char* value = found == variables.end() ? "" : found->second.c_str();
      scopes_.push_back(std::make_unique<EnvScope>(info.var, value));
    }
  }

 private:
  std::vector<std::unique_ptr<EnvScope>> scopes_;
};

Launch launch_with(const std::map<std::string, std::string>& variables, bool meets_by_mpi = true) {
  const Environment environment(variables);
  return read_launch(meets_by_mpi);
}

std::string refusal_of(const std::map<std::string, std::string>& variables) {
  try {
    launch_with(variables);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

const std::map<std::string, std::string> kMpirun{{"OMPI_COMM_WORLD_RANK", "5"},
                                                 {"OMPI_COMM_WORLD_SIZE", "8"},
                                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                 {"PMIX_RANK", "5"}};
const std::map<std::string, std::string> kSrun{{"SLURM_PROCID", "3"},
                                               {"SLURM_STEP_NUM_TASKS", "4"},
                                               {"SLURM_LOCALID", "1"},
                                               {"PMIX_RANK", "3"}};
const std::map<std::string, std::string> kTorchrun{
    {"TORCHELASTIC_RUN_ID", "none"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}};

TEST(Launch, AloneIsOneRank) { EXPECT_EQ(launch_with({}), Launch{}); }

TEST(Launch, ReadsEachLauncher) {
  EXPECT_EQ(launch_with(kMpirun), (Launch{Launcher::mpirun, 5, 8, 1}));
  EXPECT_EQ(launch_with(kSrun), (Launch{Launcher::srun, 3, 4, 1}));
  EXPECT_EQ(launch_with(kTorchrun), (Launch{Launcher::torchrun, 1, 2, 1}));
  EXPECT_EQ(launch_with({{"RANK", "1"}, {"WORLD_SIZE", "2"}}),
            (Launch{Launcher::torchrun, 1, 2, 0}));
}

TEST(Launch, TheInnermostCounts) {
  auto both = kSrun;
  both.insert(kMpirun.begin(), kMpirun.end());
  both.insert(kTorchrun.begin(), kTorchrun.end());
  EXPECT_EQ(launch_with(both).launcher, Launcher::mpirun);
}

// In a batch script, outside of any srun: one process, which may start ranks of its own.
TEST(Launch, ABatchScriptIsOneRank) {
  EXPECT_EQ(launch_with({{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}}), Launch{});
}

TEST(Launch, SrunWithoutPmixIsRefused) {
  auto tasks = kSrun;
  tasks.erase("PMIX_RANK");
  EXPECT_NE(refusal_of(tasks).find("4 tasks, no PMIX_RANK; start them with srun --mpi=pmix"),
            std::string::npos);
  EXPECT_EQ(launch_with(tasks, /*meets_by_mpi=*/false), (Launch{Launcher::srun, 3, 4, 1}));
  tasks["SLURM_STEP_NUM_TASKS"] = "1";
  tasks["SLURM_PROCID"] = "0";
  EXPECT_EQ(launch_with(tasks).world_size, 1);
}

TEST(Launch, AnotherMpiIsRefused) {
  EXPECT_NE(refusal_of({{"PMI_SIZE", "4"}}).find("PMI_SIZE is 4"), std::string::npos);
  EXPECT_EQ(launch_with({{"PMI_SIZE", "1"}}), Launch{});
}

TEST(Launch, BadNumbersAreNamed) {
  EXPECT_NE(refusal_of({{"WORLD_SIZE", "two"}, {"RANK", "0"}}).find("WORLD_SIZE is \"two\""),
            std::string::npos);
  EXPECT_NE(refusal_of({{"WORLD_SIZE", "2"}}).find("RANK is \"\""), std::string::npos);
  EXPECT_NE(refusal_of({{"WORLD_SIZE", "2"}, {"RANK", "2"}}).find("rank 2 of 2"),
            std::string::npos);
  EXPECT_NE(refusal_of({{"WORLD_SIZE", "0"}, {"RANK", "0"}}).find("WORLD_SIZE is \"0\""),
            std::string::npos);
}

}  // namespace
}  // namespace zeroshard
