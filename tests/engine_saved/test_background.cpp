// A save beside training is the one that a save in the foreground would have been, and training
// does not notice it.

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tests/engine_saved/saved_run.h"
#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/compare.h"
#include "zeroshard/checkpoint/saver.h"
#include "zeroshard/checkpoint/verify.h"
#include "zeroshard/device/stalls.h"

namespace zeroshard::test {
namespace {

using std::chrono::milliseconds;

// Passes everything on, slowly: training has time to overtake.
class SlowStates final : public TensorStates {
 public:
  SlowStates(Core& core, milliseconds delay) : states_(core), delay_(delay) {}

  const std::vector<TensorRecord>& tensors() const override { return states_.tensors(); }
  const std::vector<HeldState>& owned() const override { return states_.owned(); }
  const std::vector<HeldState>& held() const override { return states_.held(); }
  void read(const HeldState& state, const Span& elements, void* into) const override {
    if (reading_) std::this_thread::sleep_for(delay_);
    states_.read(state, elements, into);
  }
  std::int64_t write(const HeldState& state, const Span& elements, const void* from,
                     DType dtype) override {
    return states_.write(state, elements, from, dtype);
  }
  void set_updates(std::size_t tensor, std::int64_t updates) override {
    states_.set_updates(tensor, updates);
  }
  void begin_reading(const std::set<std::size_t>& units) override {
    reading_ = true;
    states_.begin_reading(units);
  }
  void begin_reading_frozen() override {
    reading_ = true;
    states_.begin_reading_frozen();
  }
  void end_reading(std::size_t unit) override { states_.end_reading(unit); }
  void end_reading() noexcept override {
    ended_ = true;
    states_.end_reading();
  }
  bool ended() const { return ended_; }
  std::chrono::nanoseconds waited() const override { return states_.waited(); }

 private:
  CoreStates states_;
  const milliseconds delay_;
  bool reading_ = false;
  std::atomic<bool> ended_ = false;
};

// Saves after the third step, in the foreground into `foreground`, and beside the steps that follow
// into `background`.
RunPlan saving(RunPlan plan, SaveMode mode, milliseconds delay, const TemporaryFolder& folder,
               SaveReport* report = nullptr) {
  struct Parts {
    std::unique_ptr<SaveFolder> folder;
    std::unique_ptr<Saver> saver;
  };
  const auto all = std::make_shared<std::vector<Parts>>(static_cast<std::size_t>(plan.ranks));
  plan.after_step = [=, &folder](Engine& engine, Communicator& comm, int step) {
    if (step != 2) return;
    save_engine(engine, comm, folder / "foreground");
    Parts& parts = (*all)[static_cast<std::size_t>(comm.rank())];
    parts.folder = std::make_unique<SaveFolder>(comm, folder / "background");
    parts.saver = std::make_unique<Saver>(*parts.folder, comm, SaverOptions{.mode = mode});
    auto states = std::make_shared<SlowStates>(engine.core(), delay);
    SaveContents contents = contents_of(*states);
    parts.saver->save({.tag = "saved"}, states, std::move(contents));
    EXPECT_TRUE(parts.saver->is_under_way());
  };
  plan.after = [=](Engine&, Communicator& comm) {
    Parts& parts = (*all)[static_cast<std::size_t>(comm.rank())];
    const SaveReport done = parts.saver->finish();
    EXPECT_EQ(done.tag, "saved");
    EXPECT_GE(done.took, done.paused - std::chrono::seconds(1));
    if (report != nullptr && comm.rank() == 0) *report = done;
    parts = {};
  };
  return plan;
}

void expect_equal_saves(const TemporaryFolder& folder) {
  const StateFiles foreground = StateFiles::open(folder / "foreground");
  const StateFiles background = StateFiles::open(folder / "background");
  EXPECT_TRUE(verify(background).damaged.empty());
  const Comparison comparison = compare(foreground, background);
  EXPECT_TRUE(comparison.same_states());
  for (const StateDifference& difference : comparison.differences) {
    ADD_FAILURE() << difference.state << " of " << difference.tensor << ": " << difference.elements;
  }
  EXPECT_GT(comparison.equal_states, 30U);
  for (const StoredTensor& tensor : background.manifest().tensors) EXPECT_EQ(tensor.updates, 3);
}

class Background : public testing::TestWithParam<std::tuple<int, int, SaveMode, bool>> {};

TEST_P(Background, SavesWhatWasAndChangesNothing) {
  const auto [stage, ranks, mode, offloads] = GetParam();
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const TemporaryFolder folder;
    RunPlan plan = small_plan(stage, ranks, dtype);
    plan.steps = 6;
    if (offloads) plan.options.offload.optimizer = Tier::host;
    if (offloads) plan.options.offload.optimizer_ratio = 0.6;
    const Trace expected = train(plan);
    EXPECT_EQ(difference(expected, train(saving(plan, mode, milliseconds(3), folder))), "");
    expect_equal_saves(folder);
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, Background,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1, 2),
                                          testing::Values(SaveMode::snapshot, SaveMode::stream),
                                          testing::Bool()));

// Frozen parameters are read without anybody's waiting, but who moves or writes them waits.
TEST(BackgroundFrozen, StayWhereTheyAreUntilTheyAreRead) {
  using Call = std::function<void(Engine&)>;
  const Call move = [](Engine& engine) { engine.core().offload_states({}); };
  const Call write = [](Engine& engine) { engine.full_params({.writes = true}); };
  for (const SaveMode mode : {SaveMode::snapshot, SaveMode::stream}) {
    for (const Call& call : {move, write}) {
      const TemporaryFolder folder;
      RunPlan plan = small_plan(2, 1, DType::bf16);
      plan.steps = 4;
      plan.prepare = [](Model& model) {
        for (torch::Tensor& parameter : model->blocks[0]->parameters()) {
          parameter.set_requires_grad(false);
        }
      };
      const Trace expected = train(plan);
      plan.after_step = [&](Engine& engine, Communicator& comm, int step) {
        if (step != 1) return;
        engine.finish();
        SaveFolder to(comm, folder / "saved");
        Saver saver(to, comm, {.mode = mode});
        auto states = std::make_shared<SlowStates>(engine.core(), milliseconds(10));
        saver.save({.tag = "saved"}, states, contents_of(*states));
        EXPECT_FALSE(states->ended());
        call(engine);
        EXPECT_TRUE(states->ended()) << "it was not waited for";
        saver.finish();
        engine.core().reload_states();
      };
      EXPECT_EQ(difference(expected, train(plan)), "");
    }
  }
}

// Updates begin early again when the save is over, and not before: nothing that is read may change.
TEST(BackgroundSpeculation, IsOffWhileUnitsAreRead) {
  for (const SaveMode mode : {SaveMode::snapshot, SaveMode::stream}) {
    const TemporaryFolder folder;
    RunPlan plan = small_plan(2, 2, DType::bf16);
    plan.steps = 8;
    plan.options.offload.optimizer = Tier::host;
    // The last gradients are late, so that units before have time to be updated early.
    plan.prepare = [](Model& model) {
      for (torch::Tensor& parameter : model->blocks[0]->up->parameters()) {
        parameter.register_hook(
            [](const at::Tensor&) { std::this_thread::sleep_for(milliseconds(4)); });
      }
    };
    const Trace expected = train(plan);
    plan.options.zero.speculative_update = true;
    plan = saving(plan, mode, milliseconds(5), folder);
    const auto save = plan.after_step;
    std::vector<std::int64_t> early(2);  // before the save, at the end
    plan.after_step = [&](Engine& engine, Communicator& comm, int step) {
      save(engine, comm, step);
      if (comm.rank() != 0) return;
      early[step == 2 ? 0 : 1] = engine.core().speculation()->updated();
      const bool reads = mode == SaveMode::stream && step == 2;
      EXPECT_TRUE(!reads || engine.core().gate().is_closed());
    };
    EXPECT_EQ(difference(expected, train(plan)), "");
    EXPECT_GT(early[0], 0) << "no update began early";
    EXPECT_GT(early[1], early[0]) << "none after the save";
    expect_equal_saves(folder);
  }
}

// Updates wait for what is not read yet, unit by unit, and the wait is told.
TEST(BackgroundPause, OfAStreamIsWhatUpdatesHaveWaited) {
  const TemporaryFolder folder;
  RunPlan plan = small_plan(2, 1);
  plan.steps = 5;
  SaveReport report;
  train(saving(plan, SaveMode::stream, milliseconds(10), folder, &report));
  EXPECT_GT(report.took, milliseconds(300)) << "thirty states, 10 ms each";
  EXPECT_GT(report.paused, report.took / 2) << "the small model's next step comes at once";
  EXPECT_LE(report.paused, report.took + milliseconds(50));
  const TemporaryFolder other;
  train(saving(plan, SaveMode::snapshot, milliseconds(0), other, &report));
  EXPECT_LT(report.paused, report.took);
}

TEST(BackgroundRaces, StallsChangeNoBit) {
  for (const SaveMode mode : {SaveMode::snapshot, SaveMode::stream}) {
    const TemporaryFolder folder;
    RunPlan plan = small_plan(3, 2, DType::bf16);
    plan.steps = 20;
    plan.options.offload.optimizer = Tier::host;
    plan.options.offload.parameters = Tier::host;
    const Trace expected = train(plan);
    const RandomStalls stalls({.seed = 3, .one_in = 8, .at_most = std::chrono::microseconds(300)});
    EXPECT_EQ(difference(expected, train(saving(plan, mode, milliseconds(1), folder))), "");
    expect_equal_saves(folder);
  }
}

// Of one rank's states nothing can be begun.
class Unwilling final : public TensorStates {
 public:
  Unwilling(Core& core, bool refuses) : states_(core), refuses_(refuses) {}

  const std::vector<TensorRecord>& tensors() const override { return states_.tensors(); }
  const std::vector<HeldState>& owned() const override { return states_.owned(); }
  const std::vector<HeldState>& held() const override { return states_.held(); }
  void read(const HeldState& state, const Span& elements, void* into) const override {
    if (refuses_) throw StorageError({.what = "no memory for this"});
    states_.read(state, elements, into);
  }
  std::int64_t write(const HeldState& state, const Span& elements, const void* from,
                     DType dtype) override {
    return states_.write(state, elements, from, dtype);
  }
  void set_updates(std::size_t tensor, std::int64_t updates) override {
    states_.set_updates(tensor, updates);
  }
  void begin_reading(const std::set<std::size_t>& units) override {
    states_.begin_reading(units);
    if (refuses_) throw StorageError({.what = "no thread for this"});
  }
  void begin_reading_frozen() override { states_.begin_reading_frozen(); }
  void end_reading(std::size_t unit) override { states_.end_reading(unit); }
  void end_reading() noexcept override { states_.end_reading(); }
  std::chrono::nanoseconds waited() const override { return states_.waited(); }

 private:
  CoreStates states_;
  const bool refuses_;
};

// All ranks throw the same, no update waits for a save that is none, and the next one is well.
TEST(BackgroundErrors, OfOneRankAtTheBeginningAreAllRanks) {
  for (const SaveMode mode : {SaveMode::snapshot, SaveMode::stream}) {
    const TemporaryFolder folder;
    RunPlan plan = small_plan(2, 2, DType::bf16);
    plan.steps = 3;
    const Trace expected = train(plan);
    plan.after_step = [&](Engine& engine, Communicator& comm, int step) {
      if (step != 1) return;
      engine.finish();
      SaveFolder to(comm, folder.path());
      Saver saver(to, comm, {.mode = mode});
      for (const int unwilling : {0, 1}) {
        auto states = std::make_shared<Unwilling>(engine.core(), comm.rank() == unwilling);
        SaveContents contents = contents_of(*states);
        try {
          saver.save({.tag = "a"}, states, std::move(contents));
          ADD_FAILURE() << "it began";
        } catch (const StorageError& error) {
          EXPECT_EQ(error.fault().what.find("rank " + std::to_string(unwilling)), 0U)
              << error.what();
        }
        EXPECT_FALSE(saver.is_under_way());
        EXPECT_FALSE(engine.core().gate().is_closed());
      }
      auto states = std::make_shared<CoreStates>(engine.core());
      SaveContents contents = contents_of(*states);
      saver.save({.tag = "b"}, states, std::move(contents));
      EXPECT_EQ(saver.finish().tag, "b");
    };
    EXPECT_EQ(difference(expected, train(plan)), "");
    EXPECT_TRUE(verify(StateFiles::open(folder.path())).damaged.empty());
    EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  }
}

// What goes wrong beside training is thrown by finish(), and updates go on.
TEST(BackgroundErrors, ComeWhenTheSaveIsFinished) {
  for (const SaveMode mode : {SaveMode::snapshot, SaveMode::stream}) {
    const TemporaryFolder folder;
    RunPlan plan = small_plan(2, 2);
    plan.steps = 4;
    const Trace expected = train(plan);
    std::vector<std::unique_ptr<SaveFolder>> folders(2);
    std::vector<std::unique_ptr<Saver>> savers(2);
    plan.after_step = [&](Engine& engine, Communicator& comm, int step) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      if (step == 0) {
        engine.finish();
        folders[rank] = std::make_unique<SaveFolder>(comm, folder / "runs");
        savers[rank] = std::make_unique<Saver>(*folders[rank], comm, SaverOptions{.mode = mode});
        auto states = std::make_shared<CoreStates>(engine.core());
        SaveContents contents = contents_of(*states);
        savers[rank]->save({.tag = "a"}, states, std::move(contents));
      }
      if (step == 0 && comm.rank() == 0) std::filesystem::remove_all(folder / "runs");
    };
    plan.after = [&](Engine&, Communicator& comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      EXPECT_THROW(savers[rank]->finish(), StorageError);
      EXPECT_FALSE(savers[rank]->is_under_way());
      savers[rank].reset();
      comm.barrier("all savers are gone").wait();
      folders[rank].reset();
    };
    EXPECT_EQ(difference(expected, train(plan)), "");
  }
}

}  // namespace
}  // namespace zeroshard::test
