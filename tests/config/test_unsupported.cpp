// Known keys of features that ZeroShard does not have: a warning, or an error if results change.

#include "tests/config/config_support.h"
#include "zeroshard/config/key_table.h"

namespace zeroshard::config {
namespace {

struct Row {
  std::string path;
  Lines silent;  // values that ask for nothing special
  Lines loud;    // values that are reported, at the value
};

void expect_rows(const std::vector<Row>& rows, const std::string& report) {
  for (const Row& row : rows) {
    for (const std::string value : {"null", "\"auto\""}) {
      EXPECT_EQ(kinds_of_problems(nested(row.path, value)), Lines{}) << row.path << value;
    }
    for (const std::string& value : row.silent) {
      EXPECT_EQ(kinds_of_problems(nested(row.path, value)), Lines{}) << row.path << ' ' << value;
    }
    for (const std::string& value : row.loud) {
      EXPECT_EQ(kinds_of_problems(nested(row.path, value)), (Lines{report + " " + row.path}))
          << row.path << ' ' << value;
    }
  }
}

TEST(Unsupported, KeysWithoutEffectWarnUnlessTheyAskForWhatIsDoneAnyway) {
  const std::string zero = "zero_optimization.";
  expect_rows({{zero + "zero_hpz_partition_size", {"1"}, {"8"}},
               {zero + "mics_shard_size", {"-1", "0"}, {"4"}},
               {zero + "mics_hierarchical_params_gather", {"false"}, {"true"}},
               {zero + "override_module_apply", {"true"}, {"false"}},
               {zero + "offload_optimizer.super_offload", {"false"}, {"true"}},
               {"data_parallel_size", {}, {"2"}},
               {"dump_state", {"false"}, {"true"}},
               {"checkpoint.use_node_local_storage", {"false"}, {"true"}},
               {"checkpoint.writer", {}, {"{\"type\": \"FAST\"}"}},
               {"compile.deepcompile", {"false"}, {"true"}}},
              "warning no_effect");
}

TEST(Unsupported, KeysThatOnlyTuneAreNotedForThoseWhoAsk) {
  const std::string zero = "zero_optimization.";
  expect_rows({{zero + "contiguous_gradients", {"true"}, {"false"}},
               {zero + "reduce_scatter", {"true"}, {"false"}},
               {zero + "use_multi_rank_bucket_allreduce", {"true"}, {"false"}},
               {zero + "allgather_partitions", {"true"}, {"false"}},
               {zero + "allgather_bucket_size", {}, {"5e8", "2e8"}},
               {zero + "sub_group_size", {}, {"1e9", "1e14"}},
               {zero + "stage3_max_reuse_distance", {}, {"1e9", "0"}},
               {zero + "stage3_module_granularity_threshold", {"0"}, {"100"}},
               {zero + "stage3_use_all_reduce_for_fetch_params", {"false"}, {"true"}},
               {zero + "stage3_allgather_sequential", {"false"}, {"true"}},
               {zero + "round_robin_gradients", {"false"}, {"true"}},
               {zero + "memory_efficient_linear", {"true"}, {"false"}},
               {zero + "pipeline_loading_checkpoint", {"false"}, {"true"}},
               {zero + "log_trace_cache_warnings", {"false"}, {"true"}},
               {zero + "save_muon_momentum_buffer_in_memory", {"false"}, {"true"}},
               {zero + "elastic_checkpoint", {"true", "false"}, {}},
               {zero + "offload_optimizer.buffer_count", {}, {"4"}},
               {zero + "offload_optimizer.fast_init", {"false"}, {"true"}},
               {zero + "offload_optimizer.pipeline_read", {"false"}, {"true"}},
               {zero + "offload_optimizer.pipeline_write", {"false"}, {"true"}},
               {zero + "offload_optimizer.cpuadam_cores_perc", {}, {"0.8"}},
               {zero + "offload_optimizer.nvme_path", {}, {"\"/local_nvme\""}},
               {zero + "offload_param.buffer_count", {}, {"5"}},
               {zero + "offload_param.buffer_size", {}, {"1e8"}},
               {zero + "offload_param.max_in_cpu", {}, {"1e9"}},
               {zero + "offload_param.nvme_path", {}, {"\"/local_nvme\""}},
               {"bf16.immediate_grad_update", {"false"}, {"true"}},
               {"sparse_gradients", {"false"}, {"true"}},
               {"disable_allgather", {"false"}, {"true"}},
               {"graph_harvesting", {"false"}, {"true"}},
               {"allgather_size", {}, {"5e8"}},
               {"seq_parallel_communication_data_type", {"\"fp32\"", "\"float\""}, {"\"bf16\""}},
               {"use_data_before_expert_parallelism", {"false"}, {"true"}},
               {"activation_checkpointing.partition_activations", {"false"}, {"true"}},
               {"activation_checkpointing.cpu_checkpointing", {"false"}, {"true"}},
               {"activation_checkpointing.contiguous_memory_optimization", {"false"}, {"true"}},
               {"activation_checkpointing.synchronize_checkpoint_boundary", {"false"}, {"true"}},
               {"activation_checkpointing.profile", {"false"}, {"true"}},
               {"activation_checkpointing.number_checkpoints", {}, {"4"}},
               {"timers.throughput.enabled", {"true"}, {"false"}},
               {"timers.throughput.synchronized", {"true", "false"}, {}},
               {"checkpoint.parallel_write.pipeline_stage", {"false"}, {"true"}},
               {"checkpoint.checkpoint_serialization", {"true"}, {"false"}}},
              "note no_effect");
}

TEST(Unsupported, SwitchesOfOtherServicesWarnWhenOn) {
  std::vector<Row> rows;
  for (const char* section : {"wandb", "comet", "comms_logger", "flops_profiler", "autotuning",
                              "hybrid_engine", "nebula"}) {
    rows.push_back({std::string(section) + ".enabled", {"false"}, {"true"}});
  }
  expect_rows(rows, "warning no_effect");
}

TEST(Unsupported, KeysThatChangeResultsAreErrors) {
  const std::string zero = "zero_optimization.";
  expect_rows({{"gradient_allreduce_op", {"\"mean\"", "\"MEAN\""}, {"\"sum\""}},
               {"managed_gradient_accumulation", {"true"}, {"false"}},
               {"sequence_parallel_size", {"1"}, {"2"}},
               {"amp.enabled", {"false"}, {"true"}},
               {"torch_autocast.enabled", {"false"}, {"true"}},
               {"elasticity.enabled", {"false"}, {"true"}},
               {"curriculum_learning.enabled", {"false"}, {"true"}},
               {"data_efficiency.enabled", {"false"}, {"true"}},
               {"progressive_layer_drop.enabled", {"false"}, {"true"}},
               {"eigenvalue.enabled", {"false"}, {"true"}},
               {"tensor_parallel.autotp_size", {"0", "1"}, {"2"}},
               {"fp16.fp16_master_weights_and_grads", {"false"}, {"true"}},
               {"bf16.bf16_master_weights_and_grads", {"false"}, {"true"}},
               {"bf16.bf16_optimizer_states", {"false"}, {"true"}},
               {"data_types.buffer_dtype", {}, {"\"bf16\""}},
               {zero + "zero_quantized_weights", {"false"}, {"true"}},
               {zero + "zero_quantized_gradients", {"false"}, {"true"}},
               {zero + "zero_quantized_nontrainable_weights", {"false"}, {"true"}},
               {zero + "zeropp_loco_param", {}, {"{\"err_beta\": 0.8, \"reset_T\": 1024}"}},
               {zero + "legacy_stage1", {"false"}, {"true"}}},
              "error unsupported");
}

TEST(Unsupported, SectionsOfAbsentFeaturesAreReportedAsOne) {
  for (const auto& [section, severity] :
       {std::pair{"aio", "note"}, {"pipeline", "note"}, {"datastates_ckpt", "warning"}}) {
    EXPECT_EQ(kinds_of_problems(nested(section, R"({"a": 1, "b": 2})")),
              (Lines{fmt::format("{} no_effect {}", severity, section)}));
    EXPECT_TRUE(problems_of(nested(section, "{}")).empty()) << section;
  }
  for (const char* section : {"compression_training", "weight_quantization", "quantize_training",
                              "sparse_attention", "expert_parallel", "zero_optimization.zenflow"}) {
    EXPECT_EQ(kinds_of_problems(nested(section, R"({"a": 1, "b": 2})")),
              (Lines{std::string("error unsupported ") + section}));
    EXPECT_TRUE(problems_of(nested(section, "{}")).empty()) << section;
  }
}

TEST(Unsupported, LeafModulesAreThePythonPackages) {
  EXPECT_TRUE(problems_of(nested("zero_optimization.leaf_module", R"({"names": ["a"]})")).empty());
}

TEST(Unsupported, OtherOptimizersAreErrorsAndTheirParametersNotLookedAt) {
  for (const char* type :
       {"Lamb", "OneBitAdam", "ZeroOneAdam", "OneBitLamb", "Muon", "MuAdam", "MuSGD", "RMSprop"}) {
    const std::string text =
        fmt::format(R"({{"optimizer": {{"type": "{}", "params": {{"freeze_step": 9}}}}}})", type);
    EXPECT_EQ(kinds_of_problems(text), (Lines{"error unsupported optimizer.type"})) << type;
    EXPECT_FALSE(read_config(text).config.optimizer) << type;
  }
  EXPECT_EQ(only_problem(R"({"optimizer": {"type": "AdaGrd"}})").remedy,
            "did you mean \"Adagrad\"?");
}

TEST(Unsupported, OtherSchedulesAreErrors) {
  for (const char* type : {"CosineAnnealingLR", "WarmUpPolyLR", "StepLR", ""}) {
    const std::string text =
        fmt::format(R"({{"scheduler": {{"type": "{}", "params": {{"T_max": 9}}}}}})", type);
    EXPECT_EQ(kinds_of_problems(text), (Lines{"error unsupported scheduler.type"})) << type;
  }
}

TEST(Unsupported, VariantsOfKnownOptimizersAreErrors) {
  const auto adam = [](std::string_view params) {
    return kinds_of_problems(
        fmt::format(R"({{"optimizer": {{"type": "AdamW", "params": {{{}}}}}}})", params));
  };
  EXPECT_EQ(adam("\"amsgrad\": true"), (Lines{"error unsupported optimizer.params.amsgrad"}));
  EXPECT_EQ(adam("\"amsgrad\": false, \"torch_adam\": false"), Lines{});
  EXPECT_EQ(adam("\"fp32_optimizer_states\": false"),
            (Lines{"error unsupported optimizer.params.fp32_optimizer_states"}));
  EXPECT_EQ(adam("\"adam_w_mode\": false"),
            (Lines{"warning no_effect optimizer.params.adam_w_mode"}));
  EXPECT_EQ(kinds_of_problems(R"({"optimizer": {"type": "Adam", "legacy_fusion": true}})"),
            (Lines{"note no_effect optimizer.legacy_fusion"}));
  const auto warmup = [](int last) {
    return kinds_of_problems(fmt::format(
        R"({{"scheduler": {{"type": "WarmupLR", "params": {{"last_batch_iteration": {}}}}}}})",
        last));
  };
  EXPECT_EQ(warmup(-1), Lines{});
  EXPECT_EQ(warmup(7), (Lines{"error unsupported scheduler.params.last_batch_iteration"}));
}

TEST(Unsupported, EveryMessageSaysWhatHappensInstead) {
  for (const Key& key : key_table().keys()) {
    const bool reported = is_reported(key.effect);
    Node yes, no;
    yes.kind = no.kind = Node::Kind::boolean;
    yes.boolean = true;
    const bool never =
        key.harmless && key.type == "boolean" && key.harmless(yes, {}) && key.harmless(no, {});
    EXPECT_TRUE(!reported || never || !key.instead.empty()) << key.path;
  }
}

}  // namespace
}  // namespace zeroshard::config
