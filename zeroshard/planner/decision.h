// The tree that people are taught, walked with numbers: stage 2; if that does not fit, the
// optimizer on the host; else stage 3; and so on, to the least drastic change that fits.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "zeroshard/planner/variants.h"

namespace zeroshard {

inline constexpr std::array<Variant, 5> kTree{
    {{2, false, false}, {2, true, false}, {3, false, false}, {3, true, false}, {3, true, true}}};

// What of the choice is left to us.
struct OpenQuestions {
  bool stage = true;
  bool offload = true;     // of the optimizer's states
  bool parameters = true;  // where they lie once they are sharded
  // What is not open. Its parameters_on_host is for the stages that shard them, whatever its stage.
  Variant given = {};
};

struct Decision {
  std::vector<PlannedVariant> walked;  // in the order of the tree, up to the one that fits
  bool fits = false;                   // the last one does
  std::vector<std::string> words = {};

  const PlannedVariant& chosen() const { return walked.back(); }
};

// Where nothing fits, the last one is what comes nearest.
Decision walk_tree(const VariantPlanner& planner, const MemoryLimits& limits,
                   const OpenQuestions& open = {});

// "31.20 GiB of 24.00 GiB on the device, does not fit"
std::string verdict(const PlannedVariant& planned, const MemoryLimits& limits);

}  // namespace zeroshard
