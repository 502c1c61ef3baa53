// Where each effective value came from.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "zeroshard/config/node.h"

namespace zeroshard::config {

enum class Source {
  file,       // written there
  defaulted,  // nobody said; the option's default
  derived,    // computed from other keys
  automatic,  // "auto": the caller resolves it; until then the default
  resolved,   // "auto", and the caller has resolved it
};

struct Origin {
  Source source = Source::defaulted;
  Position at = {};          // file and automatic
  std::string written = {};  // the path as the file spells it
  std::string value = {};    // the value as the file spells it
};

// Canonical key path -> origin; keys that were not given are not in it.
using Provenance = std::map<std::string, Origin, std::less<>>;

// "file", "default", "derived", "auto", "auto, resolved".
std::string_view name_of(Source source);

// Whether the file has a value for the key; "auto" that nobody has resolved is none.
bool says(const Provenance& provenance, std::string_view key);

// Whether the file says "auto" and nobody has resolved it.
bool left_at_auto(const Provenance& provenance, std::string_view key);

// The kind that the file's optimizer.type or scheduler.type chose for a section such as
// "optimizer.params", as the key table spells it; empty elsewhere and where none was chosen.
std::string kind_given(const Provenance& provenance, std::string_view section);

}  // namespace zeroshard::config
