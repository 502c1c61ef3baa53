#include "zeroshard/config/remedy.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/nearest.h"

namespace zeroshard::config {
namespace {

// Names that people meet elsewhere. The first DeepSpeed names itself, the others it ignores.
constexpr const char* kOfAccelerate = "it is accelerate's: it belongs in accelerate's own file";
constexpr std::array<std::pair<std::string_view, const char*>, 8> kKnownElsewhere{{
    {"max_grad_norm", "use gradient_clipping at the top level"},
    {"lr_scheduler", "use scheduler"},
    {"zero3_init_flag", kOfAccelerate},
    {"zero3_save_16bit_model", kOfAccelerate},
    {"zero_stage", "use zero_optimization.stage"},
    {"gradient_accumulation_dtype", "use data_types.grad_accum_dtype"},
    {"find_unused_parameters", "it is DistributedDataParallel's: unused parameters are found here"},
    {"opt_level", "it is Apex AMP's: remove it"},
}};

std::optional<std::string> known_elsewhere(std::string_view name) {
  for (const auto& [key, remedy] : kKnownElsewhere) {
    if (key == name) return remedy;
  }
  return std::nullopt;
}

// Whether the member could stand in that section: a section is one there, a value none.
bool fits_into(const Member& member, const std::string& home) {
  const std::string path = join_path(home, member.key);
  if (key_table().find_section(path) != nullptr) return member.value.is(Node::Kind::object);
  return !member.value.is(Node::Kind::object);
}

// `"fp16": {"fp16": true}`: the section's own name as its switch.
bool is_switch_by_its_name(const Member& member, std::string_view section) {
  return member.value.is(Node::Kind::boolean) && member.key == leaf_of(section) &&
         key_table().find_key(join_path(section, "enabled")) != nullptr;
}

// checkpoint_tag_validation in "checkpoint", or micro_batch_per_gpu.
std::optional<std::string> likely_name(const std::string& name, std::string_view section,
                                       const std::string& kind) {
  const auto names = key_table().names_in(section, kind);
  const std::string prefix = std::string(leaf_of(section)) + "_";
  for (const std::string& known : names) {
    if (name == prefix + known) return known;
  }
  return nearest_by_words(name, names);
}

}  // namespace

std::string remedy_for_value(const Key& key, const Node& value) {
  if (value.is(Node::Kind::text) && nearest(value.text, {"auto"})) return "did you mean \"auto\"?";
  if (key.required) return fmt::format("it is needed: {}", key.meaning);
  const std::string fallback = key_table().default_of(key);
  return fallback == "null" ? "or leave it out" : "the default is " + fallback;
}

std::string remedy_for_odd(const Key& key, const Node& value) {
  if (key.type == "boolean") return "write true";
  if (value.is(Node::Kind::text)) return "write " + value.text;
  return key.type == "integer" ? "write a whole number" : "write a number";
}

std::string remedy_for_old(const Key& key, const Node& value) {
  if (key.instead.empty()) return fmt::format("write \"{}\"", key.name());
  // Where the switch is off, the new form of it switched on would be the opposite.
  const auto on = ValueType<bool>::parse(value, Coercion::typed_section).value;
  return on == false ? "leave it out, which means the same" : key.instead;
}

std::string remedy_for_unknown(const Member& member, std::string_view section,
                               const std::string& kind) {
  if (const auto remedy = known_elsewhere(member.key)) return *remedy;
  if (is_switch_by_its_name(member, section)) {
    return fmt::format("write \"enabled\": {}", member.value.boolean);
  }
  auto homes = key_table().homes_of(member.key);
  std::erase(homes, section);
  std::erase_if(homes, [&](const std::string& home) { return !fits_into(member, home); });
  if (homes.size() == 1) {
    return homes[0].empty() ? "it belongs at the top level"
                            : fmt::format("it belongs in \"{}\"", homes[0]);
  }
  if (const auto like = likely_name(member.key, section, kind)) {
    return fmt::format("did you mean \"{}\"?", *like);
  }
  return "remove it, or begin it with _ to keep it as a comment";
}

}  // namespace zeroshard::config
