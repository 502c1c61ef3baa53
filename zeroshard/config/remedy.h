// What to do about a key that was not taken as it stands.
#pragma once

#include <string>
#include <string_view>

#include "zeroshard/config/key_table.h"

namespace zeroshard::config {

// About a value that was refused.
std::string remedy_for_value(const Key& key, const Node& value);

// About a value that was taken, though it is not written as it should be.
std::string remedy_for_odd(const Key& key, const Node& value);

// About an old spelling.
std::string remedy_for_old(const Key& key, const Node& value);

// About a key that nobody knows in this section. `kind` is that of its optimizer or schedule.
std::string remedy_for_unknown(const Member& member, std::string_view section,
                               const std::string& kind);

}  // namespace zeroshard::config
