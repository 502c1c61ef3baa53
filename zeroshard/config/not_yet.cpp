#include "zeroshard/config/not_yet.h"

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/config/key_table.h"

namespace zeroshard::config {
namespace {

std::vector<const Key*> later_keys_with(Effect effect) {
  std::vector<const Key*> keys;
  for (const Key& key : key_table().keys()) {
    if (key.comes_later && key.effect == effect) keys.push_back(&key);
  }
  return keys;
}

bool asks_for(const Key& key, const Config& config) {
  return key.show(config) != key.show(Config{});
}

}  // namespace

std::vector<const Key*> keys_not_yet() { return later_keys_with(Effect::not_yet); }

std::vector<const Key*> refused_keys_not_yet() { return later_keys_with(Effect::changes_results); }

std::vector<std::string> asked_but_not_yet(const Config& config) {
  std::vector<std::string> lines;
  for (const Key* key : keys_not_yet()) {
    if (!asks_for(*key, config)) continue;
    lines.push_back(
        fmt::format("{} = {}: {}; {}", key->path, key->show(config), kNotYet, key->instead));
  }
  return lines;
}

void refuse_what_is_not_yet(const Config& config) {
  for (const Key* key : refused_keys_not_yet()) {
    if (!asks_for(*key, config)) continue;
    throw ConfigError({.what = fmt::format("{} is {}", key->path, kNotYet),
                       .value = key->show(config),
                       .remedy = key->instead});
  }
}

void leave_out_what_is_not_yet(Config& config) {
  const Config defaults;
  for (const Key* key : keys_not_yet()) key->copy(defaults, config);
}

}  // namespace zeroshard::config
