// JSON strings and numbers, appended to a text.
#pragma once

#include <string>
#include <string_view>

namespace zeroshard {

// In quotes, escaped. A byte that is not UTF-8 becomes U+FFFD, since JSON has no other bytes.
void append_json_string(std::string& out, std::string_view text);

// The shortest digits that read back as the same double, always with a point or an exponent, so
// that readers that guess types see a real number. NaN and infinities, which JSON lacks, become
// null.
void append_json_number(std::string& out, double value);

}  // namespace zeroshard
