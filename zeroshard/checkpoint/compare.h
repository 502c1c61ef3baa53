// What differs between two checkpoints, or models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zeroshard/checkpoint/state_files.h"

namespace zeroshard {

struct StateDifference {
  std::string tensor;
  std::string state;
  std::string what = {};      // "is BF16 there and F32 here"; "" where values differ
  std::int64_t elements = 0;  // that differ in their bits
  std::int64_t of_elements = 0;
  std::int64_t first = 0;  // the first of them
  double largest = 0.0;    // difference, of floating-point numbers
};

struct Comparison {
  std::uint64_t equal_states = 0;
  std::vector<StateDifference> differences = {};
  std::vector<std::string> only_in_first = {};  // tensors, or "exp_avg of h.0.weight"
  std::vector<std::string> only_in_second = {};
  std::vector<std::string> numbers = {};  // of the run: "step: 100 and 200"

  bool same_states() const {
    return differences.empty() && only_in_first.empty() && only_in_second.empty();
  }
};

// Reads both once, holding a chunk and a block of each.
Comparison compare(const StateFiles& first, const StateFiles& second);

}  // namespace zeroshard
