// All keys and sections of ds_config.json, in one table.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "zeroshard/config/key.h"

namespace zeroshard::config {

// What an unknown key in a section is.
enum class UnknownKeys {
  refused,  // an error: DeepSpeed itself refuses it there
  warned,   // a warning, unless it is a near miss of a known key
  free,     // nobody's business: the section belongs to a feature that is absent or passed through
};

struct Section {
  std::string path;
  std::string meaning;
  UnknownKeys unknown_keys = UnknownKeys::warned;
  Effect effect = Effect::supported;  // of a non-empty section as a whole
  std::string instead = {};
  std::string old_spelling = {};  // of the whole path, deprecated
};

// A section whose `type` names a kind that decides which `params` there are.
struct Kind {
  std::string section;  // "optimizer" or "scheduler"
  std::string name;
  std::function<void(Config&)> install;  // puts that kind's default options; empty: not supported
};

class KeyTable {
 public:
  void add(Key key) { keys_.push_back(std::move(key)); }
  void add(Section section) { sections_.push_back(std::move(section)); }
  void add(Kind kind) { kinds_.push_back(std::move(kind)); }

  const std::vector<Key>& keys() const { return keys_; }
  const std::vector<Section>& sections() const { return sections_; }

  // By path, alias or old spelling; `kind` matters below optimizer.params and scheduler.params.
  const Key* find_key(std::string_view path, const std::string& kind = {}) const;
  const Section* find_section(std::string_view path) const;
  const Kind* find_kind(std::string_view section, std::string_view name) const;
  std::vector<std::string> kind_names(std::string_view section, bool supported_only) const;

  // Every name that may stand directly in a section, for "did you mean".
  std::vector<std::string> names_in(std::string_view section, const std::string& kind) const;
  // Other sections that have a key or section of this name.
  std::vector<std::string> homes_of(std::string_view name) const;

  // The default of a key as `config keys` and `config explain` show it.
  std::string default_of(const Key& key) const;

 private:
  std::vector<Key> keys_;
  std::vector<Section> sections_;
  std::vector<Kind> kinds_;
};

// The one table, built on first use.
const KeyTable& key_table();

// The rows, by area. Each is a file keys_<area>.cpp.
void add_batch_keys(KeyTable& table);
void add_optimizer_keys(KeyTable& table);
void add_scheduler_keys(KeyTable& table);
void add_precision_keys(KeyTable& table);
void add_zero_keys(KeyTable& table);
void add_offload_keys(KeyTable& table);
void add_monitor_keys(KeyTable& table);
void add_checkpoint_keys(KeyTable& table);
void add_absent_keys(KeyTable& table);
void add_own_keys(KeyTable& table);

bool same_but_for_case(std::string_view a, std::string_view b);

// Path arithmetic: "a.b.c" -> "a.b" and "c".
std::string_view parent_of(std::string_view path);
std::string_view leaf_of(std::string_view path);
std::string join_path(std::string_view section, std::string_view name);

}  // namespace zeroshard::config
