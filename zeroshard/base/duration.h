// Lengths of time as people write them, for timeouts and reports.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace zeroshard {

// Reads "500ms", "5s", "30min", "2h", "1d", "90"; a bare number is in seconds, fractions are
// rounded to the nearest millisecond. Bad text throws ConfigError; `option` is what the message
// says was wrong.
std::chrono::milliseconds parse_duration(std::string_view text,
                                         std::string_view option = "the duration");

// "250 ms", "12.5 s", "2 min 05 s", "3 h 07 min", "2 d 04 h": two units at most.
std::string human_duration(std::chrono::milliseconds duration);

}  // namespace zeroshard
