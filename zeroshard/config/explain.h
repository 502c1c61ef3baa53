// Every key's effective value and where it came from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "zeroshard/config/provenance.h"
#include "zeroshard/config/read.h"

namespace zeroshard::config {

struct ExplainedKey {
  std::string key;
  std::string value;  // as one would write it in the file
  Source source = Source::defaulted;
  Position at = {};       // in the file, if it was given there
  std::string note = {};  // how it was derived, or what it does here if that is not its meaning
};

// In the order of the key table. Parameters of optimizers and schedules that were not chosen are
// left out. With a world size the batch triad is solved.
std::vector<ExplainedKey> explain(const ReadResult& read, std::optional<int> world_size);

}  // namespace zeroshard::config
