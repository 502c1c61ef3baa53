// Text to Node: the relaxed forms first, then RapidJSON's SAX reader.
#pragma once

#include <optional>
#include <string_view>

#include "zeroshard/config/node.h"
#include "zeroshard/config/problem.h"

namespace zeroshard::config {

// The root object, or nothing when the text cannot be read (the report then says why).
std::optional<Node> parse(std::string_view text, Report& report);

}  // namespace zeroshard::config
