// How a manifest protects itself: the end of its text is the checksum of all before it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace zeroshard {

inline constexpr std::string_view kManifestFormat = "zeroshard.checkpoint";

// Closes the object: `body` is everything from its opening brace to its last member but one.
std::string with_checksum(std::string body);

// Whether the text ends with the checksum of what is before. One flipped bit anywhere, also in the
// checksum, and it does not.
bool has_its_checksum(std::string_view text);

}  // namespace zeroshard
