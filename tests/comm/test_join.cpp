// Which communicator the launcher's variables ask for. Ranks under mpirun: tests/comm_mpi.
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "tests/base/env_scope.h"
#include "zeroshard/base/error.h"
#include "zeroshard/comm/join.h"

namespace zeroshard {
namespace {

using test::EnvScope;

TEST(Join, AloneIsOneRank) {
  const EnvScope no_mpirun(EnvVar::kOpenMpiSize, ""), no_srun(EnvVar::kSlurmSize, "");
  const EnvScope no_id(EnvVar::kTorchrunId, ""), no_size(EnvVar::kWorldSize, "");
  const auto comm = join_ranks({});
  EXPECT_EQ(comm->world_size(), 1);
  EXPECT_EQ(comm->make_sibling()->rank(), 0);
}

TEST(Join, UnderTorchrunOneSentenceAndExitCode2) {
  const EnvScope no_mpirun(EnvVar::kOpenMpiSize, ""), no_srun(EnvVar::kSlurmSize, "");
  const EnvScope id(EnvVar::kTorchrunId, "none"), size(EnvVar::kWorldSize, "2");
  const EnvScope rank(EnvVar::kRank, "1");
  testing::internal::CaptureStderr();
  const int code = rank_main([] {
    join_ranks({});
    return 0;
  });
  EXPECT_EQ(code, 2);
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "rank 1: [config] ranks started by torchrun cannot be joined from C++ yet: rank 1 of 2; "
      "start the program with zeroshard run --ranks 2\n");
}

TEST(Join, RankMainSaysAnErrorOnceAndEchoesNot) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(rank_main([]() -> int { throw PeerError({.what = "rank 1 ends with an error"}); }), 1);
  EXPECT_EQ(rank_main([]() -> int { throw 7; }), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "an exception of unknown type\n");
}

}  // namespace
}  // namespace zeroshard
