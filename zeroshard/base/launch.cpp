#include "zeroshard/base/launch.h"

#include <limits>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "zeroshard/base/env.h"
#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

// A launcher's variables. `sign` is there under this launcher and under no other.
struct Variables {
  Launcher launcher;
  EnvVar sign;
  EnvVar rank;
  EnvVar world_size;
  EnvVar local_rank;
};

constexpr Variables kLaunchers[] = {
    {Launcher::mpirun, EnvVar::kOpenMpiSize, EnvVar::kOpenMpiRank, EnvVar::kOpenMpiSize,
     EnvVar::kOpenMpiLocalRank},
    {Launcher::srun, EnvVar::kSlurmSize, EnvVar::kSlurmRank, EnvVar::kSlurmSize,
     EnvVar::kSlurmLocalRank},
    {Launcher::torchrun, EnvVar::kTorchrunId, EnvVar::kRank, EnvVar::kWorldSize,
     EnvVar::kLocalRank},
    // The same variables set by another agent, or by hand.
    {Launcher::torchrun, EnvVar::kWorldSize, EnvVar::kRank, EnvVar::kWorldSize, EnvVar::kLocalRank},
};

const char* name_of_variable(EnvVar var) {
  return all_env_vars()[static_cast<std::size_t>(var)].name;
}

int number_in(EnvVar var, Launcher launcher, int least) {
  const auto value = env_integer(var);
  if (value && *value >= least && *value <= std::numeric_limits<int>::max()) {
    return static_cast<int>(*value);
  }
  throw ConfigError(
      {.what = fmt::format("{} does not say which rank this is", name_of(launcher)),
       .value = fmt::format("{} is \"{}\"", name_of_variable(var), env_text(var).value_or("")),
       .remedy = "unset the launcher's variables, or set all of them (docs/env_variables.md)"});
}

Launch read(const Variables& from) {
  Launch launch{.launcher = from.launcher};
  launch.world_size = number_in(from.world_size, from.launcher, 1);
  launch.rank = number_in(from.rank, from.launcher, 0);
  // Who sets rank and size by hand need not think of this one.
  if (env_text(from.local_rank)) launch.local_rank = number_in(from.local_rank, from.launcher, 0);
  if (launch.rank < launch.world_size) return launch;
  throw ConfigError(
      {.what = fmt::format("{} says a rank that is not there", name_of(from.launcher)),
       .value = fmt::format("rank {} of {}", launch.rank, launch.world_size),
       .remedy = "ranks count from 0"});
}

void refuse_srun_without_pmix(const Launch& launch) {
  if (launch.launcher != Launcher::srun || launch.world_size == 1) return;
  if (env_text(EnvVar::kPmixRank)) return;
  throw ConfigError({.what = "srun has started several tasks that cannot find each other",
                     .value = fmt::format("{} tasks, no PMIX_RANK", launch.world_size),
                     .remedy = "start them with srun --mpi=pmix"});
}

void refuse_other_mpi() {
  const auto ranks = env_integer(EnvVar::kPmiSize);
  if (!ranks || *ranks <= 1) return;
  throw ConfigError({.what = "the ranks were started by an MPI other than Open MPI",
                     .value = fmt::format("PMI_SIZE is {}", *ranks),
                     .remedy = "start them with zeroshard run, or with Open MPI's mpirun"});
}

}  // namespace

std::string_view name_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::none: return "no launcher";
    case Launcher::mpirun: return "mpirun";
    case Launcher::srun: return "srun";
    case Launcher::torchrun: return "torchrun";
  }
  return "?";
}

Launch read_launch(bool meets_by_mpi) {
  for (const Variables& launcher : kLaunchers) {
    if (!env_text(launcher.sign)) continue;
    const Launch launch = read(launcher);
    if (meets_by_mpi) refuse_srun_without_pmix(launch);
    return launch;
  }
  refuse_other_mpi();
  return {};
}

}  // namespace zeroshard
