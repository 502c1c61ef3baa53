// Every key that the reference's part 1 names is known to the table.

#include <sstream>

#include "tests/config/config_support.h"
#include "zeroshard/config/key_table.h"

namespace zeroshard::config {
namespace {

// Section, kind where one decides, then the keys; copied from the tables of the reference.
struct Group {
  const char* section;
  const char* keys;
  const char* kind = "";
};

const std::vector<Group> kReference{
    {"",
     "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps "
     "managed_gradient_accumulation dataloader_drop_last optimizer scheduler "
     "zero_allow_untested_optimizer zero_force_ds_cpu_optimizer fp16 bf16 bfloat16 data_types "
     "torch_autocast amp gradient_clipping communication_data_type "
     "seq_parallel_communication_data_type prescale_gradients gradient_predivide_factor "
     "gradient_allreduce_op sparse_gradients disable_allgather graph_harvesting "
     "sequence_parallel_size data_parallel_size use_data_before_expert_parallelism "
     "zero_optimization allgather_size aio activation_checkpointing tensorboard wandb csv_monitor "
     "comet steps_per_print wall_clock_breakdown memory_breakdown dump_state log_level timers "
     "comms_logger flops_profiler vocabulary_size checkpoint nebula datastates_ckpt elasticity "
     "autotuning tensor_parallel expert_parallel pipeline hybrid_engine compile "
     "curriculum_learning data_efficiency progressive_layer_drop eigenvalue compression_training "
     "weight_quantization sparse_attention zeroshard"},
    {"optimizer", "type params legacy_fusion"},
    {"optimizer.params",
     "lr betas eps weight_decay bias_correction amsgrad torch_adam adam_w_mode "
     "fp32_optimizer_states",
     "Adam"},
    {"optimizer.params",
     "lr betas eps weight_decay bias_correction amsgrad torch_adam adam_w_mode "
     "fp32_optimizer_states",
     "AdamW"},
    {"optimizer.params", "lr eps weight_decay amsgrad fp32_optimizer_states", "Adagrad"},
    {"optimizer.params", "lr betas weight_decay fp32_optimizer_states", "Lion"},
    {"optimizer.params", "lr momentum dampening weight_decay nesterov", "SGD"},
    {"scheduler", "type params"},
    {"scheduler.params",
     "lr_range_test_min_lr lr_range_test_step_size lr_range_test_step_rate lr_range_test_staircase",
     "LRRangeTest"},
    {"scheduler.params",
     "cycle_min_lr cycle_max_lr decay_lr_rate cycle_first_step_size cycle_second_step_size "
     "decay_step_size cycle_momentum cycle_min_mom cycle_max_mom decay_mom_rate "
     "cycle_first_stair_count cycle_second_stair_count last_batch_iteration",
     "OneCycle"},
    {"scheduler.params", "warmup_min_lr warmup_max_lr warmup_num_steps warmup_type", "WarmupLR"},
    {"scheduler.params",
     "total_num_steps warmup_min_lr warmup_max_lr warmup_num_steps warmup_type "
     "last_batch_iteration",
     "WarmupDecayLR"},
    {"scheduler.params",
     "total_num_steps warmup_min_ratio warmup_num_steps cos_min_ratio warmup_type",
     "WarmupCosineLR"},
    {"fp16",
     "enabled auto_cast loss_scale initial_scale_power loss_scale_window hysteresis "
     "consecutive_hysteresis min_loss_scale fp16_master_weights_and_grads"},
    {"bf16",
     "enabled immediate_grad_update check_grad_overflow bf16_master_weights_and_grads "
     "bf16_optimizer_states"},
    {"data_types", "grad_accum_dtype param_dtype buffer_dtype"},
    {"torch_autocast", "enabled dtype lower_precision_safe_modules"},
    {"zero_optimization",
     "stage contiguous_gradients reduce_scatter reduce_bucket_size "
     "use_multi_rank_bucket_allreduce allgather_partitions allgather_bucket_size overlap_comm "
     "load_from_fp32_weights elastic_checkpoint offload_param offload_optimizer zenflow "
     "sub_group_size cpu_offload cpu_offload_param cpu_offload_use_pin_memory "
     "stage3_prefetch_bucket_size prefetch_bucket_size stage3_param_persistence_threshold "
     "param_persistence_threshold stage3_model_persistence_threshold model_persistence_threshold "
     "stage3_max_live_parameters max_live_parameters stage3_max_reuse_distance max_reuse_distance "
     "stage3_gather_16bit_weights_on_model_save gather_16bit_weights_on_model_save "
     "stage3_gather_fp16_weights_on_model_save stage3_module_granularity_threshold "
     "module_granularity_threshold stage3_use_all_reduce_for_fetch_params "
     "use_all_reduce_for_fetch_params stage3_allgather_sequential allgather_sequential "
     "ignore_unused_parameters legacy_stage1 round_robin_gradients zero_hpz_partition_size "
     "zero_quantized_weights zero_quantized_nontrainable_weights zero_quantized_gradients "
     "zeropp_loco_param mics_shard_size mics_hierarchical_params_gather memory_efficient_linear "
     "pipeline_loading_checkpoint override_module_apply log_trace_cache_warnings "
     "enable_sanity_checks save_muon_momentum_buffer_in_memory leaf_module"},
    {"zero_optimization.leaf_module", "classes names name_suffixes"},
    {"zero_optimization.offload_param",
     "device nvme_path buffer_count buffer_size max_in_cpu pin_memory"},
    {"zero_optimization.offload_optimizer",
     "device nvme_path buffer_count pin_memory pipeline_read pipeline_write fast_init ratio "
     "super_offload cpuadam_cores_perc"},
    {"zero_optimization.zenflow",
     "topk_ratio select_strategy select_interval update_interval overlap_step offload auto_ratio "
     "full_warm_up_rounds pt_reserved_cores_perc"},
    {"aio", "block_size queue_depth intra_op_parallelism single_submit overlap_events use_gds"},
    {"activation_checkpointing",
     "partition_activations number_checkpoints contiguous_memory_optimization "
     "synchronize_checkpoint_boundary profile cpu_checkpointing"},
    {"tensorboard", "enabled output_path job_name"},
    {"csv_monitor", "enabled output_path job_name"},
    {"wandb", "enabled group team project"},
    {"comet",
     "enabled samples_log_interval project workspace api_key experiment_name experiment_key online "
     "mode"},
    {"timers", "throughput"},
    {"timers.throughput", "enabled synchronized"},
    {"comms_logger", "enabled prof_all prof_ops verbose debug"},
    {"flops_profiler",
     "enabled recompute_fwd_factor profile_step module_depth top_modules detailed output_file"},
    {"checkpoint",
     "tag_validation load_universal use_node_local_storage parallel_write checkpoint_serialization "
     "writer"},
    {"checkpoint.parallel_write", "pipeline_stage"},
    {"elasticity",
     "enabled max_train_batch_size micro_batch_sizes min_gpus max_gpus min_time "
     "prefer_larger_batch ignore_non_elastic_batch_info version num_gpus_per_node "
     "model_parallel_size"},
    {"tensor_parallel", "autotp_size tp_overlap_comm preset_model partition_config"},
    {"pipeline", "stages partition seed_layers activation_checkpoint_interval"},
    {"compile",
     "deepcompile passes free_activation free_activation_threshold offload_activation "
     "offload_opt_states offload_parameters double_buffer symmetric_memory debug_log "
     "sync_before_reduce sync_after_reduce sync_before_allgather sync_after_allgather "
     "keep_int_input_tensors keep_all_input_tensors"},
    {"hybrid_engine",
     "enabled max_out_tokens inference_tp_size release_inference_cache pin_parameters "
     "tp_gather_partition_size"},
    {"zeroshard",
     "deterministic halved_masters device_budget host_budget speculative_update delayed_update "
     "comm_timeout "
     "debug_poison"},
};

Lines words(const char* text) {
  std::istringstream stream(text);
  Lines list;
  for (std::string word; stream >> word;) list.push_back(word);
  return list;
}

TEST(KnownKeys, AreAllThatTheReferenceNames) {
  std::size_t count = 0;
  for (const Group& group : kReference) {
    const Section* section = key_table().find_section(group.section);
    const bool whole = section != nullptr && section->unknown_keys == UnknownKeys::free;
    for (const std::string& name : words(group.keys)) {
      const std::string path = join_path(group.section, name);
      ++count;
      EXPECT_TRUE(whole || key_table().find_key(path, group.kind) != nullptr ||
                  key_table().find_section(path) != nullptr)
          << path << ' ' << group.kind;
    }
  }
  EXPECT_GT(count, 270U);
}

// The other way round: nothing is accepted that neither the reference nor the design knows.
TEST(KnownKeys, AreNoOthers) {
  Lines known{"quantize_training"};  // of older releases; people's files have it
  for (const Group& group : kReference) {
    for (const std::string& name : words(group.keys)) {
      known.push_back(join_path(group.section, name));
    }
  }
  for (const Key& key : key_table().keys()) {
    const Section* section = key_table().find_section(parent_of(key.path));
    const bool whole = section != nullptr && section->unknown_keys == UnknownKeys::free;
    if (whole) continue;
    EXPECT_NE(std::find(known.begin(), known.end(), key.path), known.end()) << key.path;
  }
  for (const Section& section : key_table().sections()) {
    EXPECT_NE(std::find(known.begin(), known.end(), section.path), known.end()) << section.path;
  }
}

// grad_hooks is in DeepSpeed's documentation, but DeepSpeed refuses it.
TEST(KnownKeys, DoNotIncludeWhatDeepSpeedRefuses) {
  EXPECT_EQ(key_table().find_key("zero_optimization.grad_hooks"), nullptr);
}

}  // namespace
}  // namespace zeroshard::config
