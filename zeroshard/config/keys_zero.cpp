// zero_optimization, but for its offload sections.
#include <string>
#include <utility>

#include "zeroshard/config/key_table.h"

namespace zeroshard::config {
namespace {

void add_sharding(KeyTable& table) {
  table.add(option("zero_optimization.stage", ZS_FIELD(zero.stage),
                   "0: nothing sharded, 1: optimizer states, 2: and gradients, 3: and parameters",
                   {.min = 0, .max = 3}));
  table.add(option("zero_optimization.overlap_comm", ZS_FIELD(zero.overlap_comm),
                   "communicate while computing; null: where parameters are sharded"));
  table.add(option("zero_optimization.reduce_bucket_size", ZS_FIELD(zero.reduce_bucket_numel),
                   "gradient elements reduced as one group", kAtLeastOne));
  table.add(option("zero_optimization.load_from_fp32_weights",
                   ZS_FIELD(checkpoint.load_from_fp32_weights),
                   "on load, masters come from the stored fp32 and not from the 16-bit copy"));
}

void add_gathering(KeyTable& table) {
  table.add(option("zero_optimization.stage3_prefetch_bucket_size", ZS_FIELD(zero.prefetch_numel),
                   "elements gathered ahead of their use; 0: none", kNotNegative)
                .alias("prefetch_bucket_size"));
  table.add(option("zero_optimization.stage3_param_persistence_threshold",
                   ZS_FIELD(zero.persistence_numel),
                   "units of at most this many elements are never released", kNotNegative)
                .alias("param_persistence_threshold"));
  table.add(option("zero_optimization.stage3_model_persistence_threshold",
                   ZS_FIELD(zero.model_persistence_numel), "... in all at most so many",
                   kNotNegative)
                .alias("model_persistence_threshold"));
  table.add(option("zero_optimization.stage3_max_live_parameters", ZS_FIELD(zero.max_live_numel),
                   "prefetch stops while this many elements are gathered", kNotNegative)
                .alias("max_live_parameters"));
  table.add(option("zero_optimization.stage3_gather_16bit_weights_on_model_save",
                   ZS_FIELD(zero.gather_16bit_weights_on_model_save),
                   "saving the model writes its full weights")
                .alias("gather_16bit_weights_on_model_save")
                .formerly("stage3_gather_fp16_weights_on_model_save"));
  table.add(option("zero_optimization.ignore_unused_parameters",
                   ZS_FIELD(zero.ignore_unused_parameters),
                   "false: a step in which a parameter has no gradient on any rank is an error"));
}

Key always(std::string name, std::string meaning, bool what_we_do, std::string instead) {
  const std::string value = what_we_do ? "true" : "false";
  return absent<bool>("zero_optimization." + std::move(name), std::move(meaning),
                      {.effect = Effect::tuning,
                       .default_value = value,
                       .instead = std::move(instead),
                       .harmless = {value}});
}

// The same for a switch whose other position somebody would miss.
Key always_and_missed(std::string name, std::string meaning, bool what_we_do, std::string instead) {
  Key key = always(std::move(name), std::move(meaning), what_we_do, std::move(instead));
  key.effect = Effect::no_effect;
  return key;
}

void add_tuning(KeyTable& table) {
  table.add(always("contiguous_gradients", "copy gradients into a flat buffer", true,
                   "gradients are always flat"));
  table.add(always("reduce_scatter", "reduce each slice to its owner only", true,
                   "gradients are always reduce-scattered"));
  table.add(always("use_multi_rank_bucket_allreduce", "one collective per bucket", true,
                   "a bucket is always one grouped reduction"));
  table.add(always("allgather_partitions", "gather updated parameters by all-gather", true,
                   "updated parameters are always all-gathered"));
  table.add(absent<std::int64_t>("zero_optimization.allgather_bucket_size",
                                 "elements per gather of updated parameters",
                                 {.effect = Effect::tuning,
                                  .default_value = "500000000",
                                  .instead = "parameters are gathered unit by unit",
                                  .limits = kNotNegative}));
  table.add(absent<std::int64_t>("zero_optimization.sub_group_size",
                                 "elements updated per optimizer sub-step",
                                 {.effect = Effect::tuning,
                                  .default_value = "1000000000",
                                  .instead = "the update runs unit by unit",
                                  .limits = kNotNegative}));
  table.add(absent<std::int64_t>("zero_optimization.stage3_max_reuse_distance",
                                 "keep a parameter that is used again within this many elements",
                                 {.effect = Effect::tuning,
                                  .default_value = "1000000000",
                                  .instead = "a unit is released as soon as it was used",
                                  .limits = kNotNegative})
                .alias("max_reuse_distance"));
  table.add(absent<std::int64_t>("zero_optimization.stage3_module_granularity_threshold",
                                 "treat small modules as one unit",
                                 {.effect = Effect::tuning,
                                  .default_value = "0",
                                  .instead = "units are found from the model",
                                  .harmless = {"0"}})
                .alias("module_granularity_threshold"));
  table.add(always("stage3_use_all_reduce_for_fetch_params", "gather by all-reduce", false,
                   "parameters are all-gathered into place")
                .alias("use_all_reduce_for_fetch_params"));
  table.add(always("stage3_allgather_sequential", "gather parameters one by one", false,
                   "a unit is gathered as one")
                .alias("allgather_sequential"));
  table.add(always("round_robin_gradients", "spread neighbouring parameters over ranks", false,
                   "every rank owns an equal span of each unit"));
  table.add(always("memory_efficient_linear", "linear layers keep references to parameters", true,
                   "autograd keeps references to parameters everywhere"));
  table.add(always_and_missed("override_module_apply", "Module.apply gathers inside Init", true,
                              "Module.apply gathers inside Init"));
  table.add(always("log_trace_cache_warnings", "print when the order of units changes", false,
                   "use --log-level debug"));
}

void add_checking(KeyTable& table) {
  const Absent either{.default_value = "false", .harmless = {"true", "false"}};
  table.add(option("zero_optimization.enable_sanity_checks", ZS_FIELD(zero.enable_sanity_checks),
                   "in Python, GatheredParameters without a modifier_rank refuses writes; ranks' "
                   "operations are compared always"));
  table.add(absent<bool>("zero_optimization.elastic_checkpoint",
                         "checkpoints load at other rank counts; always so here", either));
  table.add(always("pipeline_loading_checkpoint", "ranks load one after another", false,
                   "each rank reads only the byte ranges it needs"));
}

void add_zeropp(KeyTable& table) {
  const auto lossy = [](const char* name, const char* meaning) {
    return absent<bool>(std::string("zero_optimization.") + name, meaning,
                        {.effect = Effect::changes_results,
                         .default_value = "false",
                         .instead = "nothing is quantized; set it to false",
                         .harmless = {"false"}});
  };
  table.add(lossy("zero_quantized_weights", "gather parameters in int8"));
  table.add(lossy("zero_quantized_gradients", "reduce gradients in int4"));
  table.add(lossy("zero_quantized_nontrainable_weights", "store frozen parameters in int8"));
  table.add(absent<Anything>("zero_optimization.zeropp_loco_param",
                             "error feedback for quantized gradients",
                             {.effect = Effect::changes_results,
                              .default_value = "null",
                              .instead = "nothing is quantized; leave it out"}));
  table.add(absent<std::int64_t>(
      "zero_optimization.zero_hpz_partition_size", "ranks that keep a second copy of the shards",
      {.default_value = "1", .instead = "shards exist once, over all ranks", .harmless = {"1"}}));
  Key mics = absent<std::int64_t>("zero_optimization.mics_shard_size",
                                  "shard within groups of so many ranks",
                                  {.default_value = "-1", .instead = "shards span all ranks"});
  mics.harmless = [](const Node& node, Coercion) {
    return whole_number(node.text).value_or(1) <= 0;  // any of these means off
  };
  table.add(std::move(mics));
  table.add(always_and_missed("mics_hierarchical_params_gather", "two-level gather", false,
                              "gathers span all ranks"));
  table.add(always("save_muon_momentum_buffer_in_memory", "keep Muon's momentum off the disk",
                   false, "Muon is not available"));
  table.add(absent<bool>("zero_optimization.legacy_stage1", "the first stage 1",
                         {.effect = Effect::changes_results,
                          .default_value = "false",
                          .instead = "DeepSpeed dropped it too; set it to false",
                          .harmless = {"false"}}));
}

// The Python package marks them; a model of `zeroshard train` has none to choose among.
void add_leaf_module(KeyTable& table) {
  table.add(Section{.path = "zero_optimization.leaf_module",
                    .meaning = "modules that a Python model's stage 3 gathers as one",
                    .unknown_keys = UnknownKeys::refused});
  const std::pair<const char*, const char*> keys[] = {
      {"classes", "by the names of their classes, qualified or not"},
      {"names", "by their names in the model"},
      {"name_suffixes", "by the ends of their names"}};
  for (const auto& [name, meaning] : keys) {
    table.add(absent<Anything>(std::string("zero_optimization.leaf_module.") + name,
                               std::string("modules gathered as one, ") + meaning,
                               {.effect = Effect::supported, .default_value = "[]"}));
  }
}

}  // namespace

void add_zero_keys(KeyTable& table) {
  table.add(Section{.path = "zero_optimization",
                    .meaning = "what is sharded, and how it is gathered and reduced",
                    .unknown_keys = UnknownKeys::refused});
  add_sharding(table);
  add_gathering(table);
  add_tuning(table);
  add_checking(table);
  add_zeropp(table);
  add_leaf_module(table);
}

}  // namespace zeroshard::config
