// What a save and a load cost: no message of the engine's for the one, and beside the states a
// fixed staging or one chunk of memory.

#include <algorithm>

#include <gtest/gtest.h>
#include <malloc.h>

#include "tests/engine_saved/saved_run.h"
#include "zeroshard/checkpoint/saver.h"
#include "zeroshard/checkpoint/verify.h"
#include "zeroshard/comm/single.h"

namespace zeroshard::test {
namespace {

constexpr std::int64_t kSlack = 1 << 20;  // lists of names, paths and the like

std::int64_t allocated() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

// Passes everything on and looks how much memory there is meanwhile.
class Watched final : public TensorStates {
 public:
  explicit Watched(TensorStates& states) : states_(states) {}

  std::int64_t peak() const { return peak_ - before_; }
  // What is joined of halves on the way is as large, and gone when read() returns.
  std::int64_t largest_read() const { return largest_read_; }

  const std::vector<TensorRecord>& tensors() const override { return states_.tensors(); }
  const std::vector<HeldState>& owned() const override { return states_.owned(); }
  const std::vector<HeldState>& held() const override { return states_.held(); }
  void read(const HeldState& state, const Span& elements, void* into) const override {
    states_.read(state, elements, into);
    largest_read_ = std::max(largest_read_, elements.size() * bytes_of(state.dtype));
    look();
  }
  std::int64_t write(const HeldState& state, const Span& elements, const void* from,
                     DType dtype) override {
    const std::int64_t settled = states_.write(state, elements, from, dtype);
    look();
    return settled;
  }
  void set_updates(std::size_t tensor, std::int64_t updates) override {
    states_.set_updates(tensor, updates);
  }
  void begin_reading(const std::set<std::size_t>& units) override { states_.begin_reading(units); }
  void begin_reading_frozen() override { states_.begin_reading_frozen(); }
  void end_reading(std::size_t unit) override { states_.end_reading(unit); }
  void end_reading() noexcept override { states_.end_reading(); }
  std::chrono::nanoseconds waited() const override { return states_.waited(); }

 private:
  void look() const { peak_ = std::max(peak_, allocated()); }

  TensorStates& states_;
  std::int64_t before_ = allocated();
  mutable std::int64_t peak_ = before_;
  mutable std::int64_t largest_read_ = 0;
};

// Five million parameters: 60 MB of states beside 12 MiB of staging.
RunPlan large_plan(int stage, DType dtype) {
  RunPlan plan = small_plan(stage, 1, dtype);
  plan.shape = {.vocabulary = 2000, .width = 512, .blocks = 2};
  plan.rows = 1;
  plan.steps = 1;
  return plan;
}

TEST(Ledgers, ASaveHoldsItsStagingAndALoadOneChunk) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const TemporaryFolder folder;
    RunPlan plan = large_plan(3, dtype);
    plan.after = [&](Engine& engine, Communicator& comm) {
      engine.finish();
      CoreStates states(engine.core());
      SaveFolder to(comm, folder.path());
      const Watched saving(states);
      CheckpointSave save(to, {.tag = "saved"}, contents_of(saving), comm);
      save.run(copy_of(saving), SaveStaging(), comm);
      EXPECT_LE(saving.peak(), static_cast<std::int64_t>(kSaveStagingBytes) + kSlack);
      EXPECT_LE(saving.largest_read(), static_cast<std::int64_t>(kSaveSlotBytes));
      EXPECT_GT(saving.peak(), static_cast<std::int64_t>(kSaveStagingBytes) - kSlack);

      Watched loading(states);
      const LoadReport report = load_states(StateFiles::open(folder.path()), loading, {});
      EXPECT_GT(report.bytes_read, 50U << 20U);
      // One chunk; where masters are halves, also what of it is on its way into them.
      const std::int64_t chunks = dtype == DType::fp32 ? 1 : 2;
      EXPECT_LE(loading.peak(), chunks * static_cast<std::int64_t>(kChunkBytes) + kSlack);
    };
    train(plan);
  }
}

// Beside the copy, which somebody has made room for, and the staging.
TEST(Ledgers, ASnapshotIsTakenInPieces) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const TemporaryFolder folder;
    RunPlan plan = large_plan(2, dtype);
    plan.after = [&](Engine& engine, Communicator& comm) {
      engine.finish();
      CoreStates states(engine.core());
      SaveFolder to(comm, folder.path());
      std::vector<std::byte> room(snapshot_bytes(states));
      Saver saver(to, comm, {.mode = SaveMode::snapshot, .snapshot = room.data()});
      const auto watched = std::make_shared<Watched>(states);
      saver.save({.tag = "saved"}, watched, contents_of(*watched));
      saver.finish();
      EXPECT_LE(watched->largest_read(), static_cast<std::int64_t>(kSaveSlotBytes));
      EXPECT_LE(watched->peak(), static_cast<std::int64_t>(kSaveStagingBytes) + kSlack);
      EXPECT_TRUE(verify(StateFiles::open(folder.path())).damaged.empty());
    };
    train(plan);
  }
}

// Gathers, reductions, everything: the engine sends nothing for a save.
TEST(Ledgers, ASaveSendsNothingOfTheModel) {
  for (const int stage : {0, 1, 2, 3}) {
    const TemporaryFolder folder;
    RunPlan plan = small_plan(stage, 3, DType::bf16);
    plan.steps = 2;
    plan.after = [&](Engine& engine, Communicator& comm) {
      engine.finish();
      const TrafficLedger::Entries before = engine.core().traffic().entries();
      TrafficLedger of_save;
      const auto counted = count_traffic(comm, of_save);
      const CoreStates states(engine.core());
      SaveFolder to(*counted, folder.path());
      of_save.clear();
      CheckpointSave save(to, {.tag = "saved"}, contents_of(states), *counted);
      save.run(copy_of(states), SaveStaging(), *counted);
      EXPECT_EQ(engine.core().traffic().entries(), before);
      // What the ranks tell each other is a few words; their parts of the manifest go by the
      // folder.
      EXPECT_LE(of_save.bytes(), 1000);
      EXPECT_GT(std::filesystem::file_size(folder / "saved/manifest.json"), 5000U);
      EXPECT_EQ(of_save.bytes(Operation::reduce_scatter), 0);
    };
    train(plan);
  }
}

TEST(Ledgers, ALoadHoldsNoMoreOfTheEnginesMemoryThanTraining) {
  for (const int stage : {1, 3}) {
    const TemporaryFolder folder;
    RunPlan plan = small_plan(stage, 2, DType::bf16);
    plan.steps = 2;
    plan.after = [&](Engine& engine, Communicator& comm) {
      const std::int64_t training = engine.core().memory().peak_total(Tier::device);
      save_engine(engine, comm, folder.path());
      engine.core().memory().forget_peaks();
      load_engine(engine, folder.path());
      EXPECT_LE(engine.core().memory().peak_total(Tier::device), training);
      EXPECT_EQ(engine.core().memory().peak_total(Tier::host), 0);
    };
    train(plan);
  }
}

}  // namespace
}  // namespace zeroshard::test
