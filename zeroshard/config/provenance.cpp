#include "zeroshard/config/provenance.h"

#include "zeroshard/config/key_table.h"

namespace zeroshard::config {

std::string_view name_of(Source source) {
  switch (source) {
    case Source::file: return "file";
    case Source::defaulted: return "default";
    case Source::derived: return "derived";
    case Source::automatic: return "auto";
    case Source::resolved: return "auto, resolved";
  }
  return "?";
}

bool says(const Provenance& provenance, std::string_view key) {
  const auto found = provenance.find(key);
  return found != provenance.end() && found->second.source != Source::automatic;
}

bool left_at_auto(const Provenance& provenance, std::string_view key) {
  const auto found = provenance.find(key);
  return found != provenance.end() && found->second.source == Source::automatic;
}

std::string kind_given(const Provenance& provenance, std::string_view section) {
  const std::string owner(parent_of(section));
  const auto type = provenance.find(owner + ".type");
  if (leaf_of(section) != "params" || type == provenance.end()) return {};
  const std::string& quoted = type->second.value;
  const Kind* kind = quoted.size() < 2
                         ? nullptr
                         : key_table().find_kind(owner, quoted.substr(1, quoted.size() - 2));
  return kind == nullptr ? std::string{} : kind->name;
}

}  // namespace zeroshard::config
