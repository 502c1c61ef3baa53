// Features of DeepSpeed that ZeroShard does not have, as far as a config can ask for them.
#include "zeroshard/config/key_table.h"

namespace zeroshard::config {
namespace {

// A feature that is off unless `enabled`; what else its section says then does not matter.
void add_switched(KeyTable& table, const std::string& section, const char* meaning, Effect effect,
                  const char* instead) {
  table.add(Section{.path = section, .meaning = meaning, .unknown_keys = UnknownKeys::free});
  table.add(absent<bool>(
      section + ".enabled", "turn it on",
      {.effect = effect, .default_value = "false", .instead = instead, .harmless = {"false"}}));
}

// A feature that a non-empty section asks for.
void add_whole(KeyTable& table, const char* section, const char* meaning, Effect effect,
               const char* instead) {
  table.add(Section{.path = section,
                    .meaning = meaning,
                    .unknown_keys = UnknownKeys::free,
                    .effect = effect,
                    .instead = instead});
}

void add_result_changers(KeyTable& table) {
  const auto effect = Effect::changes_results;
  const char* drop = "remove it, or set enabled to false";
  const char* remove = "remove the section";
  add_switched(table, "elasticity", "batch sizes that follow the number of nodes", effect, drop);
  add_switched(table, "curriculum_learning", "sequences that grow", effect, drop);
  add_switched(table, "data_efficiency", "sampling and token dropping", effect, drop);
  add_switched(table, "progressive_layer_drop", "layers dropped at random", effect, drop);
  add_switched(table, "eigenvalue", "eigenvalues for quantized training", effect, drop);
  add_whole(table, "compression_training", "quantized or pruned training", effect, remove);
  add_whole(table, "weight_quantization", "quantized weights", effect, remove);
  add_whole(table, "quantize_training", "quantized training", effect, remove);
  add_whole(table, "sparse_attention", "block-sparse attention", effect, remove);
  add_whole(table, "expert_parallel", "experts over ranks", effect, remove);
  add_whole(table, "zero_optimization.zenflow", "stale partial updates", effect, remove);
  table.add(Section{.path = "tensor_parallel",
                    .meaning = "tensors split over ranks",
                    .unknown_keys = UnknownKeys::refused});
  table.add(absent<std::int64_t>(
      "tensor_parallel.autotp_size", "ranks per tensor",
      {.effect = effect, .default_value = "0", .instead = "set it to 0", .harmless = {"0", "1"}}));
  for (const char* name : {"tp_overlap_comm", "preset_model", "partition_config"}) {
    table.add(absent<Anything>(std::string("tensor_parallel.") + name, "for autotp_size above 1",
                               {.effect = Effect::detail, .default_value = "null"}));
  }
  table.add(absent<std::int64_t>(
      "sequence_parallel_size", "ranks per sequence",
      {.effect = effect, .default_value = "1", .instead = "set it to 1", .harmless = {"1"}}));
}

void add_idle_sections(KeyTable& table) {
  const auto effect = Effect::no_effect;
  add_switched(table, "autotuning", "a search over configs", effect, "use zeroshard plan");
  add_switched(table, "nebula", "another checkpoint service", effect, "checkpoints are our own");
  add_whole(table, "datastates_ckpt", "another checkpoint writer", effect,
            "checkpoints are our own");
  add_whole(table, "aio", "requests of offload to disk", Effect::tuning,
            "offload to disk is not available");
  add_whole(table, "pipeline", "pipeline parallelism", Effect::tuning,
            "it matters to PipelineModule only, which is not available");
}

// Sections in which DeepSpeed knows every key, and refuses others.
void add_checked_sections(KeyTable& table) {
  const auto details = [&](const std::string& section, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      table.add(absent<Anything>(section + "." + name, "for when it is on",
                                 {.effect = Effect::detail, .default_value = "null"}));
    }
  };
  table.add(
      Section{.path = "compile", .meaning = "DeepCompile", .unknown_keys = UnknownKeys::refused});
  table.add(absent<bool>(
      "compile.deepcompile", "compile the model with its communication",
      {.default_value = "false", .instead = "the model runs as it is", .harmless = {"false"}}));
  details("compile",
          {"passes", "free_activation", "free_activation_threshold", "offload_activation",
           "offload_opt_states", "offload_parameters", "double_buffer", "symmetric_memory",
           "debug_log", "sync_before_reduce", "sync_after_reduce", "sync_before_allgather",
           "sync_after_allgather", "keep_int_input_tensors", "keep_all_input_tensors"});
  table.add(Section{.path = "hybrid_engine",
                    .meaning = "faster generation in RLHF",
                    .unknown_keys = UnknownKeys::refused});
  table.add(absent<bool>("hybrid_engine.enabled", "turn it on",
                         {.default_value = "false",
                          .instead = "generation runs on the training weights",
                          .harmless = {"false"}}));
  details("hybrid_engine", {"max_out_tokens", "inference_tp_size", "release_inference_cache",
                            "pin_parameters", "tp_gather_partition_size"});
}

Key idle_switch(const char* path, const char* meaning, const char* instead) {
  return absent<bool>(path, meaning,
                      {.effect = Effect::tuning,
                       .default_value = "false",
                       .instead = instead,
                       .harmless = {"false"}});
}

void add_idle_keys(KeyTable& table) {
  table.add(idle_switch("disable_allgather", "dead in DeepSpeed", "dead in DeepSpeed too"));
  table.add(idle_switch("graph_harvesting", "CUDA graphs of the update", "the update is one pass"));
  table.add(idle_switch("use_data_before_expert_parallelism", "order of groups for experts",
                        "there are no expert groups"));
  table.add(absent<std::int64_t>("allgather_size", "for zero_optimization as a bare boolean",
                                 {.effect = Effect::tuning,
                                  .default_value = "500000000",
                                  .instead = "parameters are gathered unit by unit"}));
  table.add(absent<DType>("seq_parallel_communication_data_type", "for sequence parallelism",
                          {.effect = Effect::tuning,
                           .default_value = "\"fp32\"",
                           .instead = "there is no sequence parallelism",
                           .harmless = {"\"fp32\""}}));
  table.add(
      absent<std::int64_t>("data_parallel_size", "for a mesh with sequence parallelism",
                           {.default_value = "null", .instead = "all ranks are data-parallel"}));
  const Absent either{.default_value = "false", .harmless = {"true", "false"}};
  table.add(absent<bool>("zero_allow_untested_optimizer",
                         "allow other optimizers; any element-wise one is allowed here", either));
  Absent forced = either;
  forced.default_value = "true";
  table.add(absent<bool>("zero_force_ds_cpu_optimizer",
                         "with offload, refuse other optimizers; none is refused here", forced));
}

}  // namespace

void add_absent_keys(KeyTable& table) {
  add_result_changers(table);
  add_idle_sections(table);
  add_checked_sections(table);
  add_idle_keys(table);
}

}  // namespace zeroshard::config
