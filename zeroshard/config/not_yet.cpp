#include "zeroshard/config/not_yet.h"

#include <fmt/format.h>

#include "zeroshard/config/key_table.h"

namespace zeroshard::config {

std::vector<const Key*> keys_not_yet() {
  std::vector<const Key*> keys;
  for (const Key& key : key_table().keys()) {
    if (key.effect == Effect::not_yet) keys.push_back(&key);
  }
  return keys;
}

std::vector<std::string> asked_but_not_yet(const Config& config) {
  const Config defaults;
  std::vector<std::string> lines;
  for (const Key* key : keys_not_yet()) {
    const std::string value = key->show(config);
    if (value == key->show(defaults)) continue;
    lines.push_back(fmt::format("{} = {}: {}; {}", key->path, value, kNotYet, key->instead));
  }
  return lines;
}

void leave_out_what_is_not_yet(Config& config) {
  const Config defaults;
  for (const Key* key : keys_not_yet()) key->copy(defaults, config);
}

}  // namespace zeroshard::config
