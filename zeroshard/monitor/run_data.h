// What a run's log says, as far as a page about it needs it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rapidjson/document.h>

namespace zeroshard {

using Points = std::vector<std::pair<double, double>>;  // by step

struct RunData {
  std::map<std::string, Points, std::less<>> columns;  // by the log's key, of numbers only
  Points evaluations;
  std::vector<std::pair<std::string, Points>> times;  // of each part of a step, in ms
  std::map<std::string, double, std::less<>> sent;    // bytes of the last step, by operation
  std::vector<std::pair<std::string, std::string>> facts;
  rapidjson::Document memory;         // the log's record
  std::vector<double> steps;          // ascending
  std::vector<double> skipped_steps;  // of these
};

// Nothing where the value is no object, or has no number of this name.
std::optional<double> number_in(const rapidjson::Value& object, const char* key);

// `log`: the lines of `train --log`. Lines that are none, as a crash leaves half a one, are passed
// over. A step that was logged before begins anew there: what a resumed run does again replaces
// what was lost. Throws ConfigError where there is no step in it.
RunData read_run_log(std::string_view log);

}  // namespace zeroshard
