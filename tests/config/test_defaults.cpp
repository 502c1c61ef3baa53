// Defaults, typed anew from the reference (its parts 1.1 to 1.9, 1.13, 1.14) and DESIGN.md 10.

#include <cstdlib>

#include "tests/config/config_support.h"
#include "zeroshard/config/key_table.h"

namespace zeroshard::config {
namespace {

struct Default {
  const char* key;
  const char* value;
  const char* kind = "";
};

const std::vector<Default> kDefaults{
    {"train_batch_size", "null"},
    {"train_micro_batch_size_per_gpu", "null"},
    {"gradient_accumulation_steps", "null"},
    {"managed_gradient_accumulation", "true"},
    {"dataloader_drop_last", "false"},
    {"zero_allow_untested_optimizer", "false"},
    {"zero_force_ds_cpu_optimizer", "true"},
    {"fp16.enabled", "false"},
    {"fp16.auto_cast", "false"},
    {"fp16.loss_scale", "0"},
    {"fp16.initial_scale_power", "16"},
    {"fp16.loss_scale_window", "1000"},
    {"fp16.hysteresis", "2"},
    {"fp16.consecutive_hysteresis", "false"},
    {"fp16.min_loss_scale", "1"},
    {"fp16.fp16_master_weights_and_grads", "false"},
    {"bf16.enabled", "false"},
    {"bf16.immediate_grad_update", "false"},
    {"bf16.check_grad_overflow", "true"},
    {"bf16.bf16_master_weights_and_grads", "false"},
    {"bf16.bf16_optimizer_states", "false"},
    {"data_types.grad_accum_dtype", "null"},
    {"data_types.param_dtype", "null"},
    {"data_types.buffer_dtype", "null"},
    {"torch_autocast.enabled", "false"},
    {"gradient_clipping", "1.0"},
    {"communication_data_type", "null"},
    {"seq_parallel_communication_data_type", "\"fp32\""},
    {"prescale_gradients", "false"},
    {"gradient_predivide_factor", "1.0"},
    {"gradient_allreduce_op", "\"mean\""},
    {"sparse_gradients", "false"},
    {"zero_optimization.stage", "0"},
    {"zero_optimization.contiguous_gradients", "true"},
    {"zero_optimization.reduce_scatter", "true"},
    {"zero_optimization.reduce_bucket_size", "5e8"},
    {"zero_optimization.use_multi_rank_bucket_allreduce", "true"},
    {"zero_optimization.allgather_partitions", "true"},
    {"zero_optimization.allgather_bucket_size", "5e8"},
    {"zero_optimization.overlap_comm", "null"},
    {"zero_optimization.load_from_fp32_weights", "true"},
    {"zero_optimization.elastic_checkpoint", "false"},
    {"zero_optimization.sub_group_size", "1e9"},
    {"zero_optimization.stage3_prefetch_bucket_size", "5e7"},
    {"zero_optimization.stage3_param_persistence_threshold", "1e5"},
    {"zero_optimization.stage3_model_persistence_threshold", "9223372036854775807"},
    {"zero_optimization.stage3_max_live_parameters", "1e9"},
    {"zero_optimization.stage3_max_reuse_distance", "1e9"},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", "false"},
    {"zero_optimization.stage3_module_granularity_threshold", "0"},
    {"zero_optimization.stage3_use_all_reduce_for_fetch_params", "false"},
    {"zero_optimization.stage3_allgather_sequential", "false"},
    {"zero_optimization.ignore_unused_parameters", "true"},
    {"zero_optimization.round_robin_gradients", "false"},
    {"zero_optimization.zero_hpz_partition_size", "1"},
    {"zero_optimization.zero_quantized_weights", "false"},
    {"zero_optimization.zero_quantized_gradients", "false"},
    {"zero_optimization.zeropp_loco_param", "null"},
    {"zero_optimization.mics_shard_size", "-1"},
    {"zero_optimization.memory_efficient_linear", "true"},
    {"zero_optimization.override_module_apply", "true"},
    {"zero_optimization.enable_sanity_checks", "false"},
    {"zero_optimization.offload_param.device", "\"none\""},
    {"zero_optimization.offload_param.nvme_path", "null"},
    {"zero_optimization.offload_param.buffer_count", "5"},
    {"zero_optimization.offload_param.buffer_size", "1e8"},
    {"zero_optimization.offload_param.max_in_cpu", "1e9"},
    {"zero_optimization.offload_param.pin_memory", "true"},
    {"zero_optimization.offload_optimizer.device", "\"none\""},
    {"zero_optimization.offload_optimizer.buffer_count", "4"},
    {"zero_optimization.offload_optimizer.pin_memory", "true"},
    {"zero_optimization.offload_optimizer.pipeline_read", "false"},
    {"zero_optimization.offload_optimizer.ratio", "1.0"},
    {"zero_optimization.offload_optimizer.cpuadam_cores_perc", "0.8"},
    {"tensorboard.enabled", "false"},
    {"tensorboard.output_path", "\"\""},
    {"tensorboard.job_name", "\"DeepSpeedJobName\""},
    {"csv_monitor.enabled", "false"},
    {"csv_monitor.output_path", "\"\""},
    {"csv_monitor.job_name", "\"DeepSpeedJobName\""},
    {"wandb.project", "\"deepspeed\""},
    {"steps_per_print", "null"},
    {"wall_clock_breakdown", "false"},
    {"log_level", "null"},
    {"timers.throughput.enabled", "true"},
    {"comms_logger.prof_all", "true"},
    {"flops_profiler.profile_step", "1"},
    {"flops_profiler.module_depth", "-1"},
    {"vocabulary_size", "null"},
    {"checkpoint.tag_validation", "\"warn\""},
    {"checkpoint.load_universal", "false"},
    {"checkpoint.use_node_local_storage", "false"},
    {"checkpoint.parallel_write.pipeline_stage", "false"},
    {"checkpoint.checkpoint_serialization", "true"},
    {"checkpoint.writer", "null"},
    {"zeroshard.deterministic", "false"},
    {"zeroshard.device_budget", "null"},
    {"zeroshard.host_budget", "null"},
    {"zeroshard.speculative_update", "null"},
    {"zeroshard.delayed_update", "false"},
    {"zeroshard.halved_masters", "true"},
    {"zeroshard.comm_timeout", "\"30min\""},
    {"zeroshard.debug_poison", "false"},
};

const std::vector<Default> kKindDefaults{
    {"optimizer.params.lr", "1e-3", "Adam"},
    {"optimizer.params.betas", "[0.9, 0.999]", "Adam"},
    {"optimizer.params.eps", "1e-8", "Adam"},
    {"optimizer.params.weight_decay", "0", "Adam"},
    {"optimizer.params.bias_correction", "true", "Adam"},
    {"optimizer.params.adam_w_mode", "true", "Adam"},
    {"optimizer.params.torch_adam", "false", "Adam"},
    {"optimizer.params.amsgrad", "false", "Adam"},
    {"optimizer.params.fp32_optimizer_states", "true", "Adam"},
    {"optimizer.params.lr", "1e-3", "AdamW"},
    {"optimizer.params.eps", "1e-8", "AdamW"},
    {"optimizer.params.weight_decay", "0", "AdamW"},
    {"optimizer.params.lr", "1e-3", "Lion"},
    {"optimizer.params.betas", "[0.9, 0.999]", "Lion"},
    {"optimizer.params.weight_decay", "0", "Lion"},
    {"optimizer.params.lr", "1e-2", "Adagrad"},
    {"optimizer.params.eps", "1e-10", "Adagrad"},
    {"optimizer.params.weight_decay", "0", "Adagrad"},
    {"optimizer.params.lr", "1e-3", "SGD"},
    {"optimizer.params.momentum", "0", "SGD"},
    {"optimizer.params.dampening", "0", "SGD"},
    {"optimizer.params.weight_decay", "0", "SGD"},
    {"optimizer.params.nesterov", "false", "SGD"},
    {"scheduler.params.lr_range_test_min_lr", "1e-3", "LRRangeTest"},
    {"scheduler.params.lr_range_test_step_size", "2000", "LRRangeTest"},
    {"scheduler.params.lr_range_test_step_rate", "1.0", "LRRangeTest"},
    {"scheduler.params.lr_range_test_staircase", "false", "LRRangeTest"},
    {"scheduler.params.decay_lr_rate", "0", "OneCycle"},
    {"scheduler.params.cycle_first_step_size", "2000", "OneCycle"},
    {"scheduler.params.cycle_second_step_size", "null", "OneCycle"},
    {"scheduler.params.decay_step_size", "0", "OneCycle"},
    {"scheduler.params.cycle_momentum", "true", "OneCycle"},
    {"scheduler.params.cycle_min_mom", "0.8", "OneCycle"},
    {"scheduler.params.cycle_max_mom", "0.9", "OneCycle"},
    {"scheduler.params.decay_mom_rate", "0", "OneCycle"},
    {"scheduler.params.cycle_first_stair_count", "0", "OneCycle"},
    {"scheduler.params.cycle_second_stair_count", "null", "OneCycle"},
    {"scheduler.params.warmup_min_lr", "0", "WarmupLR"},
    {"scheduler.params.warmup_max_lr", "null", "WarmupLR"},
    {"scheduler.params.warmup_num_steps", "1000", "WarmupLR"},
    {"scheduler.params.warmup_type", "\"log\"", "WarmupLR"},
    {"scheduler.params.warmup_min_lr", "0", "WarmupDecayLR"},
    {"scheduler.params.warmup_max_lr", "0.001", "WarmupDecayLR"},
    {"scheduler.params.warmup_num_steps", "1000", "WarmupDecayLR"},
    {"scheduler.params.warmup_type", "\"log\"", "WarmupDecayLR"},
    {"scheduler.params.warmup_min_ratio", "0", "WarmupCosineLR"},
    {"scheduler.params.warmup_num_steps", "1000", "WarmupCosineLR"},
    {"scheduler.params.cos_min_ratio", "0.0001", "WarmupCosineLR"},
    {"scheduler.params.warmup_type", "\"log\"", "WarmupCosineLR"},
    {"scheduler.params.last_batch_iteration", "-1", "WarmupLR"},
};

// 5e8 and 500000000 are the same value.
bool same_value(const std::string& a, const std::string& b) {
  char* end_a = nullptr;
  char* end_b = nullptr;
  const long double x = std::strtold(a.c_str(), &end_a);
  const long double y = std::strtold(b.c_str(), &end_b);
  const bool numbers = !a.empty() && !b.empty() && *end_a == '\0' && *end_b == '\0';
  return numbers ? x == y : a == b;
}

void expect_in_table(const Default& row) {
  const Key* key = key_table().find_key(row.key, row.kind);
  ASSERT_NE(key, nullptr) << row.key;
  const std::string shown = key_table().default_of(*key);
  EXPECT_TRUE(same_value(shown, row.value)) << row.key << ": " << shown << ", not " << row.value;
}

TEST(Defaults, AreThoseOfTheReference) {
  for (const Default& row : kDefaults) expect_in_table(row);
}

TEST(Defaults, OfOptimizersAndSchedulesAreThoseOfTheReference) {
  for (const Default& row : kKindDefaults) expect_in_table(row);
}

TEST(Defaults, AreInForceWhereTheFileSaysNothing) {
  const ReadResult read = read_config("{}");
  EXPECT_TRUE(read.report.problems().empty());
  for (const Default& row : kDefaults) {
    const ExplainedKey explained_row = explained(read, row.key);
    if (explained_row.source == Source::derived) continue;
    EXPECT_EQ(explained_row.source, Source::defaulted) << row.key;
    EXPECT_TRUE(same_value(explained_row.value, row.value)) << row.key;
  }
}

TEST(Defaults, OfTheChosenKindAreInForce) {
  for (const Default& row : kKindDefaults) {
    const std::string section(parent_of(parent_of(row.key)));
    const ReadResult read =
        read_config(fmt::format(R"({{"{}": {{"type": "{}"}}}})", section, row.kind));
    const ExplainedKey explained_row = explained(read, row.key);
    if (explained_row.source == Source::derived) continue;
    EXPECT_TRUE(same_value(explained_row.value, row.value)) << row.key << ' ' << row.kind;
  }
}

TEST(Defaults, OfAnEmptyFileAreInTheOptions) {
  const Config config = good_config("{}");
  EXPECT_FALSE(config.batch.train || config.batch.micro_per_rank || config.batch.accumulation);
  EXPECT_FALSE(config.optimizer);
  EXPECT_FALSE(config.scheduler);
  EXPECT_EQ(config.zero.stage, 0);
  EXPECT_EQ(config.zero.reduce_bucket_numel, 500'000'000);
  EXPECT_EQ(config.zero.prefetch_numel, 50'000'000);
  EXPECT_EQ(config.zero.persistence_numel, 100'000);
  EXPECT_EQ(config.zero.max_live_numel, 1'000'000'000);
  EXPECT_EQ(config.precision.gradient_clipping, 1.0);
  EXPECT_EQ(config.precision.fp16.initial_scale_power, 16);
  EXPECT_EQ(config.precision.fp16.hysteresis, 2);
  EXPECT_EQ(config.precision.model(), DType::fp32);
  EXPECT_TRUE(config.offload.pin_optimizer_memory && config.offload.pin_parameter_memory);
  EXPECT_EQ(config.offload.optimizer, Tier::device);
  EXPECT_EQ(config.comm.timeout, std::chrono::minutes(30));
}

TEST(Defaults, TorchAdamBringsItsOwnDecay) {
  const auto decay = [](std::string_view type, std::string_view params) {
    const Config config = good_config(
        fmt::format(R"({{"optimizer": {{"type": "{}", "params": {{{}}}}}}})", type, params));
    return std::get<AdamOptions>(*config.optimizer).weight_decay;
  };
  EXPECT_EQ(decay("AdamW", R"("torch_adam": true)"), 0.01);
  EXPECT_EQ(decay("Adam", R"("torch_adam": true)"), 0.01) << "Adam decouples by default";
  EXPECT_EQ(decay("Adam", R"("torch_adam": true, "adam_w_mode": false)"), 0.0);
  EXPECT_EQ(decay("AdamW", R"("torch_adam": true, "weight_decay": 0)"), 0.0);
  EXPECT_EQ(decay("AdamW", R"("torch_adam": false)"), 0.0);
}

TEST(Defaults, EachTypeInstallsItsOwnOptions) {
  const auto config_of = [](std::string_view section, std::string_view type) {
    return read_config(fmt::format(R"({{"{}": {{"type": "{}"}}}})", section, type)).config;
  };
  EXPECT_TRUE(std::holds_alternative<AdamOptions>(*config_of("optimizer", "adam").optimizer));
  EXPECT_TRUE(std::holds_alternative<AdamOptions>(*config_of("optimizer", "ADAMW").optimizer));
  EXPECT_TRUE(std::holds_alternative<SgdOptions>(*config_of("optimizer", "SGD").optimizer));
  EXPECT_TRUE(std::holds_alternative<LionOptions>(*config_of("optimizer", "Lion").optimizer));
  EXPECT_TRUE(std::holds_alternative<AdagradOptions>(*config_of("optimizer", "Adagrad").optimizer));
  const auto schedule = [&](std::string_view type) {
    return config_of("scheduler", type).scheduler->index();
  };
  EXPECT_EQ(schedule("LRRangeTest"), ScheduleOptions(LrRangeTestOptions{}).index());
  EXPECT_EQ(schedule("OneCycle"), ScheduleOptions(OneCycleOptions{}).index());
  EXPECT_EQ(schedule("WarmupLR"), ScheduleOptions(WarmupLrOptions{}).index());
  EXPECT_EQ(schedule("WarmupDecayLR"), ScheduleOptions(WarmupDecayLrOptions{}).index());
  EXPECT_EQ(schedule("WarmupCosineLR"), ScheduleOptions(WarmupCosineLrOptions{}).index());
}

}  // namespace
}  // namespace zeroshard::config
