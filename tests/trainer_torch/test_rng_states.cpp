// The generators' states go into a checkpoint and come out of it, each rank's own.
#include <map>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/saved_model.h"
#include "zeroshard/comm/thread.h"
#include "zeroshard/trainer/rng_states.h"

namespace zeroshard {
namespace {

void seed(std::uint64_t number) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_current_seed(number);
}

using Draws = std::vector<std::int64_t>;

Draws drawn() {
  const at::Tensor values =
      at::randint(std::int64_t{1} << 40, {50}, at::detail::getDefaultCPUGenerator());
  return {values.const_data_ptr<std::int64_t>(), values.const_data_ptr<std::int64_t>() + 50};
}

// Ranks that are threads have one generator, so each has its turn.
template <typename Act>
void in_turns(Communicator& comm, const Act& act) {
  for (int rank = 0; rank < comm.world_size(); ++rank) {
    if (comm.rank() == rank) act();
    comm.barrier("turn").wait();
  }
}

TEST(RngStates, DrawAgainWhatWouldHaveBeenDrawn) {
  seed(7);
  drawn();
  const std::vector<BlobToSave> blobs = rng_blobs(kCpu);
  const Draws expected = drawn();
  ASSERT_NE(drawn(), expected);
  restore_rng(kCpu, [&](const std::string& name) {
    EXPECT_EQ(name, blobs[0].name);
    return blobs[0].bytes;
  });
  EXPECT_EQ(drawn(), expected);
  // Where there is none the generator goes on.
  restore_rng(kCpu, [](const std::string&) { return std::nullopt; });
  EXPECT_NE(drawn(), expected);
}

TEST(RngStates, OfEachRankAreItsOwnInACheckpoint) {
  const TestFolder folder;
  const SavedModel model = SavedModel::random(4, 6, 4000);
  std::map<int, Draws> expected;
  run_ranks(3, {}, [&](Communicator& comm) {
    SaveContents contents = model.contents(comm.rank(), comm.world_size());
    in_turns(comm, [&] {
      seed(static_cast<std::uint64_t>(comm.rank() + 1));
      contents.blobs = rng_blobs(kCpu);
      expected[comm.rank()] = drawn();
    });
    SaveFolder to(comm, folder.path());
    CheckpointSave save(to, {.tag = "1"}, contents, comm);
    save.run(model.source(contents), SaveStaging(), comm);
    const StateFiles files = StateFiles::open(folder.path());
    RangeReader reader = files.reader();
    in_turns(comm, [&] {
      restore_rng(kCpu,
                  [&](const std::string& name) { return reader.read_blob(name, comm.rank()); });
      EXPECT_EQ(drawn(), expected[comm.rank()]);
    });
  });
  EXPECT_NE(expected[0], expected[1]);
  EXPECT_NE(expected[1], expected[2]);
}

}  // namespace
}  // namespace zeroshard
