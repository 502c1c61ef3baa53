#include "zeroshard/config/key_table.h"

#include <algorithm>
#include <cctype>

namespace zeroshard::config {
namespace {

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

KeyTable build_table() {
  KeyTable table;
  add_batch_keys(table);
  add_optimizer_keys(table);
  add_scheduler_keys(table);
  add_precision_keys(table);
  add_zero_keys(table);
  add_offload_keys(table);
  add_monitor_keys(table);
  add_checkpoint_keys(table);
  add_absent_keys(table);
  add_own_keys(table);
  return table;
}

}  // namespace

const Key* KeyTable::find_key(std::string_view path, const std::string& kind) const {
  const std::string_view section = parent_of(path);
  const std::string_view name = leaf_of(path);
  for (const Key& key : keys_) {
    if (parent_of(key.path) != section || !key.applies_to(kind)) continue;
    if (leaf_of(key.path) == name || contains(key.aliases, name) || key.is_old_spelling(name)) {
      return &key;
    }
  }
  return nullptr;
}

const Section* KeyTable::find_section(std::string_view path) const {
  for (const Section& section : sections_) {
    if (section.path == path || (!section.old_spelling.empty() && section.old_spelling == path)) {
      return &section;
    }
  }
  return nullptr;
}

const Kind* KeyTable::find_kind(std::string_view section, std::string_view name) const {
  for (const Kind& kind : kinds_) {
    if (kind.section == section && same_but_for_case(kind.name, name)) return &kind;
  }
  return nullptr;
}

std::vector<std::string> KeyTable::kind_names(std::string_view section, bool supported_only) const {
  std::vector<std::string> names;
  for (const Kind& kind : kinds_) {
    if (kind.section == section && (kind.install || !supported_only)) names.push_back(kind.name);
  }
  return names;
}

std::vector<std::string> KeyTable::names_in(std::string_view section,
                                            const std::string& kind) const {
  std::vector<std::string> names;
  for (const Key& key : keys_) {
    if (parent_of(key.path) != section || !key.applies_to(kind)) continue;
    names.emplace_back(leaf_of(key.path));
    names.insert(names.end(), key.aliases.begin(), key.aliases.end());
    names.insert(names.end(), key.old_spellings.begin(), key.old_spellings.end());
  }
  for (const Section& child : sections_) {
    if (parent_of(child.path) == section) names.emplace_back(leaf_of(child.path));
  }
  return names;
}

std::vector<std::string> KeyTable::homes_of(std::string_view name) const {
  std::vector<std::string> homes;
  auto add_home = [&](std::string_view path) {
    const std::string home(parent_of(path));
    if (!contains(homes, home)) homes.push_back(home);
  };
  for (const Key& key : keys_) {
    if (leaf_of(key.path) == name) add_home(key.path);
  }
  for (const Section& section : sections_) {
    if (leaf_of(section.path) == name) add_home(section.path);
  }
  return homes;
}

std::string KeyTable::default_of(const Key& key) const {
  if (!key.fixed_default.empty() || !key.show) return key.fixed_default;
  Config prototype;
  for (const Kind& kind : kinds_) {
    const bool right_section = parent_of(key.path) == kind.section + ".params";
    if (right_section && kind.install && key.applies_to(kind.name)) {
      kind.install(prototype);
      break;
    }
  }
  return key.show(prototype);
}

const KeyTable& key_table() {
  static const KeyTable table = build_table();
  return table;
}

bool same_but_for_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

std::string_view parent_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
}

std::string_view leaf_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

std::string join_path(std::string_view section, std::string_view name) {
  return section.empty() ? std::string(name) : std::string(section) + "." + std::string(name);
}

}  // namespace zeroshard::config
