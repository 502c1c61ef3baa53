// How this process was started, read from the variables that launchers set.
#pragma once

#include <string_view>

namespace zeroshard {

enum class Launcher { none, mpirun, srun, torchrun };

std::string_view name_of(Launcher launcher);

struct Launch {
  Launcher launcher = Launcher::none;
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  // among the ranks on this host: which of its devices to take

  bool operator==(const Launch&) const = default;
};

// The innermost launcher counts: mpirun inside a SLURM job is mpirun. Throws ConfigError where
// variables are missing or no numbers, and under an srun that brings no PMIx: each of its tasks
// would take itself for the only one. Ranks that do not meet by MPI (`meets_by_mpi` false) need
// none.
Launch read_launch(bool meets_by_mpi = true);

}  // namespace zeroshard
