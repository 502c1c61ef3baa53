// A whole run on one rank that saves to a slow disk: who asks it to stop loses nothing, whatever it
// waits for; and what of an evaluation is kept.
#include <atomic>
#include <csignal>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/temporary_folder.h"
#include "zeroshard/checkpoint/checkpoint_folder.h"
#include "zeroshard/checkpoint/state_files.h"
#include "zeroshard/checkpoint/verify.h"
#include "zeroshard/comm/single.h"
#include "zeroshard/trainer/inputs.h"
#include "zeroshard/trainer/train.h"

namespace {

std::atomic<int> slowness_ms = 0;  // of every large write

}  // namespace

// In front of the C library's.
extern "C" ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t offset) {
  if (slowness_ms > 0 && count >= size_t{1} << 20U) {
    std::this_thread::sleep_for(std::chrono::milliseconds(slowness_ms));
  }
  return ::syscall(SYS_pwrite64, descriptor, bytes, count, offset);
}

namespace zeroshard {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr const char* kConfig = R"({"train_batch_size": 4, "steps_per_print": 1000000})";

// Another task's, with losses of an evaluation that are known.
class Evaluated final : public TrainingTask {
 public:
  Evaluated(std::unique_ptr<TrainingTask> task, std::vector<double> losses)
      : task_(std::move(task)), losses_(std::move(losses)) {}

  std::int64_t sample_count() const override { return task_->sample_count(); }
  std::int64_t tokens_per_sample() const override { return task_->tokens_per_sample(); }
  torch::nn::Module& make_model(Device device) override { return task_->make_model(device); }
  at::Tensor loss(std::span<const std::int64_t> samples) override { return task_->loss(samples); }
  std::optional<double> evaluate(Communicator&, std::int64_t, const GoOn&) override {
    if (next_ == losses_.size()) return std::nullopt;
    return losses_[next_++];
  }

 private:
  const std::unique_ptr<TrainingTask> task_;
  const std::vector<double> losses_;
  std::size_t next_ = 0;
};

struct Asked {
  std::string model = "dense:hidden=8";
  SaveMode mode = SaveMode::foreground;
  std::int64_t steps = 3;
  std::vector<double> eval_losses = {};
  std::string resume = {};
};

// `train` is given the trainer, and may raise signals; the answer: whether the run was abandoned.
template <typename Train>
bool run(const Asked& asked, const fs::path& saves, const Train& train) {
  TrainOptions options{.model = asked.model, .steps = asked.steps};
  options.save = saves.string();
  options.save_every.steps = 1;
  options.eval_every = asked.eval_losses.empty() ? 0 : 1;
  options.resume = asked.resume;
  const auto comm = make_single_communicator();
  Evaluated task(make_task(options, model_of(options)), asked.eval_losses);
  RunSettings settings = resolve_run(options, config::read_config(kConfig),
                                     {.world_size = 1, .sample_count = task.sample_count()});
  settings.config_text = kConfig;
  std::atomic<bool> abandoned = false;
  Interrupts interrupts;
  StopDeadline deadline(interrupts, 250ms, [&](int) { abandoned = true; });
  SaveFolder folder(*comm, saves);
  MemoryWatch memory(kCpu);
  Trainer trainer(options, settings,
                  {.task = task,
                   .comm = *comm,
                   .interrupts = interrupts,
                   .deadline = deadline,
                   .memory = memory,
                   .saves = &folder,
                   .save_mode = asked.mode},
                  kCpu);
  train(trainer);
  const StopDeadline::Pause pause(deadline);
  EXPECT_TRUE(trainer.save_last());
  return abandoned;
}

void run(const Asked& asked, const fs::path& saves) {
  EXPECT_FALSE(run(asked, saves, [](Trainer& trainer) { EXPECT_EQ(trainer.run(), 0); }));
}

// So long after the first save has begun.
void terminate_while_it_saves(const fs::path& saves, std::chrono::milliseconds delay) {
  const auto is_saving = [&] {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(saves, ignored)) {
      if (fs::exists(entry.path() / "rank_00000.safetensors", ignored)) return true;
    }
    return false;
  };
  while (!is_saving()) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(delay);
  ::kill(::getpid(), SIGTERM);
}

// Unit by unit a step waits for the save; from a copy the next save does.
TEST(TrainerSaves, ASignalWhileASaveIsWaitedForCostsNeitherThatNorTheLast) {
  for (const auto& [mode, delay] :
       {std::pair(SaveMode::stream, 50ms), std::pair(SaveMode::snapshot, 300ms)}) {
    const test::TemporaryFolder folder;
    slowness_ms = 150;  // 27 MB in pieces of 4 MiB: a second, which is four times the patience
    int signal = 0;
    const Asked asked{.model = "dense:hidden=1500x1500", .mode = mode, .steps = 1000};
    EXPECT_FALSE(run(asked, folder.path(), [&](Trainer& trainer) {
      std::thread other([&, delay = delay] { terminate_while_it_saves(folder.path(), delay); });
      signal = trainer.run();
      slowness_ms = 0;
      other.join();
    }));
    EXPECT_EQ(signal, SIGTERM);
    const std::vector<std::string> tags = tags_in(folder.path());
    ASSERT_GE(tags.size(), 2U);
    EXPECT_EQ(tags.front(), "global_step1");
    EXPECT_EQ(read_pointer(folder.path(), kLatestFile), tags.back());
    EXPECT_TRUE(verify(StateFiles::open(folder.path())).damaged.empty());
  }
}

TEST(TrainerSaves, ALossThatIsNoNumberIsNeitherSavedNorTheBest) {
  const test::TemporaryFolder folder;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  run({.steps = 4, .eval_losses = {nan, 3.0, infinite, 4.0}}, folder.path());
  EXPECT_EQ(read_pointer(folder.path(), kBestFile), "global_step2");
  const std::map<std::string, std::optional<double>> saved{{"global_step1", std::nullopt},
                                                           {"global_step2", 3.0},
                                                           {"global_step3", std::nullopt},
                                                           {"global_step4", 4.0}};
  for (const auto& [tag, loss] : saved) {
    const StateFiles files = StateFiles::open(folder.path(), tag);
    EXPECT_EQ(files.manifest().run.real("eval_loss"), loss) << tag;
    EXPECT_EQ(files.manifest().documents.at("ds_config.json"), kConfig);
  }
}

std::vector<std::int64_t> drawn() {
  const at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor values = at::randint(std::int64_t{1} << 40, {100}, generator);
  return {values.const_data_ptr<std::int64_t>(), values.const_data_ptr<std::int64_t>() + 100};
}

// What a run draws is what it would have drawn, had it not stopped.
TEST(TrainerSaves, ResumeGoesOnWithTheGeneratorsOfRandomNumbers) {
  const test::TemporaryFolder folder;
  std::vector<std::int64_t> before;
  run({.steps = 2}, folder.path(), [&](Trainer& trainer) {
    before = drawn();
    EXPECT_EQ(trainer.run(), 0);
  });
  const std::vector<std::int64_t> expected = drawn();
  EXPECT_NE(expected, before);
  run({.steps = 2, .resume = (folder / "global_step2").string()}, folder.path(),
      [&](Trainer&) { EXPECT_EQ(drawn(), expected); });
}

}  // namespace
}  // namespace zeroshard
