// The scheduler section and each schedule's parameters.
#include "zeroshard/config/key_table.h"

namespace zeroshard::config {
namespace {

#define ZS_SCHEDULE(Options, member) \
  [](Config & config) -> auto& { return std::get<Options>(*config.scheduler).member; }

Key param(Key key, const char* kind) { return key.for_kinds({kind}); }

template <typename Options>
void add_warmup(KeyTable& table, const char* kind) {
  table.add(param(option("scheduler.params.warmup_num_steps", ZS_SCHEDULE(Options, num_steps),
                         "steps to warm up over; at least 2 are used", kCount),
                  kind));
  table.add(param(
      option("scheduler.params.warmup_type", ZS_SCHEDULE(Options, shape), "how the rate rises"),
      kind));
}

template <typename Options>
void add_warmup_rates(KeyTable& table, const char* kind, const char* max_meaning) {
  table.add(param(option("scheduler.params.warmup_min_lr", ZS_SCHEDULE(Options, min_lr),
                         "learning rate to start from", kNotNegative),
                  kind));
  table.add(param(option("scheduler.params.warmup_max_lr", ZS_SCHEDULE(Options, max_lr),
                         max_meaning, kNotNegative),
                  kind));
}

template <typename Options>
void add_total(KeyTable& table, const char* kind) {
  table.add(param(option("scheduler.params.total_num_steps", ZS_SCHEDULE(Options, total_num_steps),
                         "steps of the whole run", kCount)
                      .must_be_given(),
                  kind));
}

void add_warmups(KeyTable& table) {
  add_warmup_rates<WarmupLrOptions>(table, "WarmupLR",
                                    "learning rate to reach; null: the optimizer's");
  add_warmup<WarmupLrOptions>(table, "WarmupLR");
  add_total<WarmupDecayLrOptions>(table, "WarmupDecayLR");
  add_warmup_rates<WarmupDecayLrOptions>(table, "WarmupDecayLR", "learning rate to reach");
  add_warmup<WarmupDecayLrOptions>(table, "WarmupDecayLR");
  add_total<WarmupCosineLrOptions>(table, "WarmupCosineLR");
  add_warmup<WarmupCosineLrOptions>(table, "WarmupCosineLR");
  table.add(param(
      option("scheduler.params.warmup_min_ratio", ZS_SCHEDULE(WarmupCosineLrOptions, min_ratio),
             "share of the optimizer's rate to start from", {.min = 0, .max = 1}),
      "WarmupCosineLR"));
  table.add(param(
      option("scheduler.params.cos_min_ratio", ZS_SCHEDULE(WarmupCosineLrOptions, cos_min_ratio),
             "share of the optimizer's rate to end at", {.min = 0, .max = 1}),
      "WarmupCosineLR"));
}

void add_range_test(KeyTable& table) {
  const char* kind = "LRRangeTest";
  using Options = LrRangeTestOptions;
  table.add(param(option("scheduler.params.lr_range_test_min_lr", ZS_SCHEDULE(Options, min_lr),
                         "learning rate to start from", kNotNegative),
                  kind));
  table.add(param(option("scheduler.params.lr_range_test_step_size",
                         ZS_SCHEDULE(Options, step_size), "steps per interval", kCount),
                  kind));
  table.add(param(option("scheduler.params.lr_range_test_step_rate",
                         ZS_SCHEDULE(Options, step_rate), "growth per interval"),
                  kind));
  table.add(param(option("scheduler.params.lr_range_test_staircase",
                         ZS_SCHEDULE(Options, staircase), "grow in steps"),
                  kind));
}

void add_one_cycle(KeyTable& table) {
  const char* kind = "OneCycle";
  using Options = OneCycleOptions;
  auto add = [&](Key key) { table.add(param(std::move(key), kind)); };
  add(option("scheduler.params.cycle_min_lr", ZS_SCHEDULE(Options, min_lr), "lowest learning rate",
             kNotNegative)
          .must_be_given());
  add(option("scheduler.params.cycle_max_lr", ZS_SCHEDULE(Options, max_lr), "highest learning rate",
             kNotNegative)
          .must_be_given());
  add(option("scheduler.params.decay_lr_rate", ZS_SCHEDULE(Options, decay_lr_rate),
             "decay of the rate after the cycle"));
  add(option("scheduler.params.cycle_first_step_size", ZS_SCHEDULE(Options, first_step_size),
             "steps of the rise", kCount));
  add(option("scheduler.params.cycle_second_step_size", ZS_SCHEDULE(Options, second_step_size),
             "steps of the fall; null: as many as the rise", kCountOrZero));
  add(option("scheduler.params.decay_step_size", ZS_SCHEDULE(Options, decay_step_size),
             "steps per decay interval; 0: no decay", kCountOrZero));
  add(option("scheduler.params.cycle_first_stair_count", ZS_SCHEDULE(Options, first_stair_count),
             "stairs of the rise; 0: continuous", kCountOrZero));
  add(option("scheduler.params.cycle_second_stair_count", ZS_SCHEDULE(Options, second_stair_count),
             "stairs of the fall; null: as the rise", kCountOrZero));
  add(option("scheduler.params.cycle_momentum", ZS_SCHEDULE(Options, cycle_momentum),
             "move the first beta against the rate"));
  add(option("scheduler.params.cycle_min_mom", ZS_SCHEDULE(Options, min_momentum),
             "lowest first beta", kNotNegative));
  add(option("scheduler.params.cycle_max_mom", ZS_SCHEDULE(Options, max_momentum),
             "highest first beta", kNotNegative));
  add(option("scheduler.params.decay_mom_rate", ZS_SCHEDULE(Options, decay_momentum_rate),
             "growth of the first beta after the cycle"));
}

template <typename Options>
Kind schedule_kind(std::string name) {
  return {"scheduler", std::move(name), [](Config& config) { config.scheduler = Options{}; }};
}

}  // namespace

void add_scheduler_keys(KeyTable& table) {
  table.add(
      Section{.path = "scheduler", .meaning = "the learning-rate schedule; left out: constant"});
  table.add(absent<std::string>("scheduler.type",
                                "LRRangeTest, OneCycle, WarmupLR, WarmupDecayLR or WarmupCosineLR",
                                {.effect = Effect::supported, .default_value = "null"}));
  table.add(Section{.path = "scheduler.params",
                    .meaning = "its parameters",
                    .unknown_keys = UnknownKeys::refused});
  add_warmups(table);
  add_range_test(table);
  add_one_cycle(table);
  table.add(absent<std::int64_t>("scheduler.params.last_batch_iteration", "where to start from",
                                 {.effect = Effect::changes_results,
                                  .default_value = "-1",
                                  .instead = "resume from a checkpoint instead",
                                  .harmless = {"-1"}}));
  table.add(schedule_kind<LrRangeTestOptions>("LRRangeTest"));
  table.add(schedule_kind<OneCycleOptions>("OneCycle"));
  table.add(schedule_kind<WarmupLrOptions>("WarmupLR"));
  table.add(schedule_kind<WarmupDecayLrOptions>("WarmupDecayLR"));
  table.add(schedule_kind<WarmupCosineLrOptions>("WarmupCosineLR"));
}

}  // namespace zeroshard::config
