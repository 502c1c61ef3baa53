// offload_optimizer, offload_param and what preceded them.
#include "zeroshard/config/key_table.h"

namespace zeroshard::config {
namespace {

constexpr const char* kDiskOnly = "it concerns offload to disk, which is not available";

Key disk_only_number(const std::string& path, const char* meaning, const char* default_value) {
  return absent<std::int64_t>(
      path, meaning,
      {.effect = Effect::tuning, .default_value = default_value, .instead = kDiskOnly});
}

Key disk_only_switch(const std::string& path, const char* meaning) {
  return absent<bool>(path, meaning,
                      {.effect = Effect::tuning,
                       .default_value = "false",
                       .instead = kDiskOnly,
                       .harmless = {"false"}});
}

// What both sections say: the tier, and how its memory is held.
void add_tier(KeyTable& table, const std::string& section, Tier OffloadOptions::*tier,
              bool OffloadOptions::*pin, const char* devices) {
  table.add(option(
      section + ".device", [tier](Config & config) -> auto& { return config.offload.*tier; },
      devices));
  table.add(option(
      section + ".pin_memory", [pin](Config & config) -> auto& { return config.offload.*pin; },
      "page-locked host memory, where the system allows it"));
  table.add(absent<std::string>(
      section + ".nvme_path", "directory for offload to disk",
      {.effect = Effect::tuning, .default_value = "null", .instead = kDiskOnly}));
}

void add_offload_optimizer(KeyTable& table) {
  const std::string section = "zero_optimization.offload_optimizer";
  table.add(Section{.path = section,
                    .meaning = "where master, moments and reduced gradients live",
                    .unknown_keys = UnknownKeys::refused});
  add_tier(table, section, &OffloadOptions::optimizer, &OffloadOptions::pin_optimizer_memory,
           "none: on the device; cpu: on the host, at any stage; nvme: as cpu, with a warning");
  table.add(
      option(section + ".ratio", ZS_FIELD(offload.optimizer_ratio),
             "share of the optimizer states that leaves the device: whole units, the last first",
             {.min = 0, .max = 1}));
  table.add(disk_only_number(section + ".buffer_count", "buffers of offload to disk", "4"));
  table.add(disk_only_switch(section + ".pipeline_read", "read ahead while updating"));
  table.add(disk_only_switch(section + ".pipeline_write", "write behind while updating"));
  table.add(disk_only_switch(section + ".fast_init", "build masters from swapped files"));
  table.add(absent<bool>(section + ".super_offload", "update in another process during backward",
                         {.default_value = "false",
                          .instead = "updates on the host run beside the device in this process",
                          .harmless = {"false"}}));
  table.add(absent<double>(
      section + ".cpuadam_cores_perc", "share of cores for super_offload",
      {.effect = Effect::tuning, .default_value = "0.8", .instead = "all usable cores update"}));
}

void add_offload_param(KeyTable& table) {
  const std::string section = "zero_optimization.offload_param";
  table.add(Section{.path = section,
                    .meaning = "where sharded parameters live (stage 3)",
                    .unknown_keys = UnknownKeys::refused});
  add_tier(table, section, &OffloadOptions::parameters, &OffloadOptions::pin_parameter_memory,
           "none: on the device; cpu: on the host; nvme: as cpu, with a warning");
  table.add(disk_only_number(section + ".buffer_count", "buffers of offload to disk", "5"));
  table.add(disk_only_number(section + ".buffer_size", "elements per such buffer", "100000000"));
  table.add(disk_only_number(section + ".max_in_cpu", "elements kept on the host", "1000000000"));
}

// `"cpu_offload": true` was the whole of offload once.
Key old_switch(const char* name, Tier OffloadOptions::*tier, const char* successor) {
  Key key = absent<bool>(
      std::string("zero_optimization.") + name, std::string("deprecated: see ") + successor,
      {.effect = Effect::detail,
       .default_value = "false",
       .instead = std::string("write \"") + successor + "\": {\"device\": \"cpu\"}"});
  key.store = [tier](const Node& node, Coercion coercion, Config& config) -> Stored {
    const auto parsed = ValueType<bool>::parse(node, coercion);
    if (!parsed.value) return reject(Code::wrong_type, parsed.expected);
    if (*parsed.value) config.offload.*tier = Tier::host;
    return {};
  };
  key.old_spellings = {name};
  key.successor = successor;
  return key;
}

// This one DeepSpeed only warns about, whatever stands beside it.
Key old_pin_switch() {
  Key key = absent<bool>("zero_optimization.cpu_offload_use_pin_memory",
                         "deprecated: see offload_optimizer",
                         {.effect = Effect::detail,
                          .default_value = "false",
                          .instead = "use pin_memory in offload_optimizer"});
  key.old_spellings = {key.name()};
  return key;
}

}  // namespace

void add_offload_keys(KeyTable& table) {
  add_offload_optimizer(table);
  add_offload_param(table);
  table.add(old_switch("cpu_offload", &OffloadOptions::optimizer, "offload_optimizer"));
  table.add(old_switch("cpu_offload_param", &OffloadOptions::parameters, "offload_param"));
  table.add(old_pin_switch());
}

}  // namespace zeroshard::config
