// Text to Node: the relaxed forms first, then RapidJSON's SAX reader.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "zeroshard/config/node.h"
#include "zeroshard/config/problem.h"

namespace zeroshard::config {

// Far larger than any real config; readers stop there.
inline constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20U;

// The root object, or nothing when the text cannot be read (the report then says why).
std::optional<Node> parse(std::string_view text, Report& report);

}  // namespace zeroshard::config
