#include "zeroshard/base/rank.h"

#include "zeroshard/base/env.h"

namespace zeroshard {
namespace {

thread_local std::optional<int> thread_rank;

int rank_of_process() {
  for (EnvVar var : {EnvVar::kOpenMpiRank, EnvVar::kPmixRank, EnvVar::kSlurmRank, EnvVar::kRank}) {
    if (auto rank = env_integer(var)) return static_cast<int>(*rank);
  }
  return 0;
}

}  // namespace

int current_rank() {
  static const int process_rank = rank_of_process();
  return thread_rank.value_or(process_rank);
}

RankScope::RankScope(int rank) : outer_(thread_rank) { thread_rank = rank; }

RankScope::~RankScope() { thread_rank = outer_; }

}  // namespace zeroshard
