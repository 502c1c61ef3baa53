// Which rank the calling thread works for. Ranks may be processes (then the launcher's
// variables tell) or threads of one process (then each thread says so with a RankScope).
#pragma once

#include <optional>

namespace zeroshard {

// The rank of the calling thread: the innermost RankScope, else OMPI_COMM_WORLD_RANK,
// PMIX_RANK, SLURM_PROCID or RANK, else 0. For messages; nothing decides anything by it.
int current_rank();

// While it lives, the calling thread is `rank`.
class RankScope {
 public:
  explicit RankScope(int rank);
  ~RankScope();
  RankScope(const RankScope&) = delete;
  RankScope& operator=(const RankScope&) = delete;

 private:
  std::optional<int> outer_;
};

}  // namespace zeroshard
