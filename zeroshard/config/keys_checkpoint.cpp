// Checkpoints of states, and of activations.
#include "zeroshard/config/key_table.h"

namespace zeroshard::config {
namespace {

void add_activation_checkpointing(KeyTable& table) {
  const std::string section = "activation_checkpointing";
  const char* instead = "DeepSpeed's own engine ignores it too; checkpoint in the model";
  table.add(Section{.path = section, .meaning = "for deepspeed.checkpointing only"});
  const auto add = [&](const char* name, const char* meaning) {
    table.add(absent<bool>(section + "." + name, meaning,
                           {.effect = Effect::tuning,
                            .default_value = "false",
                            .instead = instead,
                            .harmless = {"false"}}));
  };
  add("partition_activations", "split checkpoints over model-parallel ranks");
  add("contiguous_memory_optimization", "checkpoints in one buffer");
  add("synchronize_checkpoint_boundary", "synchronise the device at each");
  add("profile", "time each");
  add("cpu_checkpointing", "checkpoints on the host");
  table.add(absent<std::int64_t>(
      section + ".number_checkpoints", "how many there will be",
      {.effect = Effect::tuning, .default_value = "null", .instead = instead}));
}

}  // namespace

void add_checkpoint_keys(KeyTable& table) {
  table.add(Section{.path = "checkpoint", .meaning = "how checkpoints are written and read"});
  table.add(option("checkpoint.tag_validation", ZS_FIELD(checkpoint.tag_validation),
                   "when ranks name different tags"));
  table.add(option("checkpoint.load_universal", ZS_FIELD(checkpoint.load_universal),
                   "of DeepSpeed's checkpoints the one that latest_universal names"));
  table.add(absent<bool>("checkpoint.use_node_local_storage", "write to each node's own disk",
                         {.default_value = "false",
                          .instead = "save to a folder that all hosts see",
                          .harmless = {"false"}}));
  table.add(Section{.path = "checkpoint.parallel_write", .meaning = "for pipeline parallelism"});
  table.add(absent<bool>("checkpoint.parallel_write.pipeline_stage", "stages write in parallel",
                         {.effect = Effect::tuning,
                          .default_value = "false",
                          .instead = "all ranks always write in parallel",
                          .harmless = {"false"}}));
  table.add(absent<bool>("checkpoint.checkpoint_serialization", "torch's zip format",
                         {.effect = Effect::tuning,
                          .default_value = "true",
                          .instead = "files are safetensors",
                          .harmless = {"true"}}));
  table.add(absent<Anything>("checkpoint.writer", "another writer",
                             {.default_value = "null", .instead = "there is one writer"}));
  add_activation_checkpointing(table);
}

}  // namespace zeroshard::config
