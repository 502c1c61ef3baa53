#include "zeroshard/trainer/command_line_values.h"

#include <array>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

using Replaced = std::vector<std::string>;

template <typename Value>
void note(Replaced& replaced, const char* key, const Value& before, const Value& now) {
  if (before != now) replaced.push_back(fmt::format("{} {}", key, before));
}

template <typename Value>
void note(Replaced& replaced, const char* key, const std::optional<Value>& before,
          const std::optional<Value>& now) {
  if (before && before != now) replaced.push_back(fmt::format("{} {}", key, *before));
}

void say(RunSettings& run, const std::string& option, const Replaced& replaced) {
  if (replaced.empty()) return;
  run.replaced.push_back(fmt::format("{} in place of {}", option, fmt::join(replaced, ", ")));
}

[[noreturn]] void refuse_schedule(double lr, const char* schedule, const char* key) {
  throw ConfigError({.what = "the schedule sets the learning rate, and --lr would have no effect",
                     .value = fmt::format("--lr {} with {}", lr, schedule),
                     .remedy = fmt::format("set {} in the config, or leave out --lr", key)});
}

// The highest rate of a schedule becomes the one that is asked for.
class NewPeak {
 public:
  NewPeak(double lr, Replaced& replaced) : lr_(lr), replaced_(replaced) {}

  void operator()(const LrRangeTestOptions&) const {
    refuse_schedule(lr_, "LRRangeTest", "lr_range_test_min_lr");
  }
  void operator()(const OneCycleOptions&) const {
    refuse_schedule(lr_, "OneCycle", "cycle_max_lr");
  }
  void operator()(WarmupLrOptions& schedule) const {
    if (schedule.max_lr) note(replaced_, "warmup_max_lr", *schedule.max_lr, lr_);
    schedule.max_lr = lr_;
    check_lowest(schedule.min_lr);
  }
  void operator()(WarmupDecayLrOptions& schedule) const {
    note(replaced_, "warmup_max_lr", schedule.max_lr, lr_);
    schedule.max_lr = lr_;
    check_lowest(schedule.min_lr);
  }
  void operator()(WarmupCosineLrOptions&) const {}  // it multiplies the optimizer's

 private:
  void check_lowest(double lowest) const {
    if (lowest <= lr_) return;
    throw ConfigError({.what = "--lr is below the rate at which the schedule starts",
                       .value = fmt::format("--lr {}, warmup_min_lr {}", lr_, lowest),
                       .remedy = "give a higher one, or set warmup_min_lr in the config"});
  }

  double lr_;
  Replaced& replaced_;
};

}  // namespace

void take_learning_rate(RunSettings& run, double lr) {
  Replaced replaced;
  note(replaced, "lr", learning_rate(*run.config.optimizer), lr);
  std::visit([lr](auto& optimizer) { optimizer.lr = lr; }, *run.config.optimizer);
  if (run.config.scheduler) std::visit(NewPeak(lr, replaced), *run.config.scheduler);
  say(run, fmt::format("--lr {}", lr), replaced);
}

// As much as possible of what the file says stays: first all of it, then the micro batch, which is
// what fits into memory, then the accumulation.
void take_batch_size(RunSettings& run, std::int64_t samples, int world_size) {
  const BatchOptions before = run.config.batch;
  BatchOptions& batch = run.config.batch;
  using Part = std::optional<std::int64_t>;
  const std::array<std::pair<Part, Part>, 4> tries{{{before.micro_per_rank, before.accumulation},
                                                    {before.micro_per_rank, std::nullopt},
                                                    {std::nullopt, before.accumulation},
                                                    {std::nullopt, std::nullopt}}};
  batch.train = samples;
  for (const auto& [micro, accumulation] : tries) {
    batch.micro_per_rank = micro;
    batch.accumulation = accumulation;
    if (config::solve_batch(batch, world_size).sizes) break;
  }
  Replaced replaced;
  note(replaced, "train_batch_size", before.train, batch.train);
  note(replaced, "train_micro_batch_size_per_gpu", before.micro_per_rank, batch.micro_per_rank);
  note(replaced, "gradient_accumulation_steps", before.accumulation, batch.accumulation);
  say(run, fmt::format("--batch-size {}", samples), replaced);
}

}  // namespace zeroshard
