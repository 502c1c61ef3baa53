// Units and their parameters in a C++ module tree.
#pragma once

#include <vector>

#include <torch/nn/module.h>

#include "zeroshard/engine/flat_unit.h"
#include "zeroshard/engine/unit_base.h"

namespace zeroshard {

struct FoundUnit {
  UnitSpec spec;
  UnitBase* unit = nullptr;  // null for the root unit
};

// The root unit first, then the others in the order of the tree. A parameter belongs to the
// innermost unit around it; one that several modules share, to the innermost around them all.
std::vector<FoundUnit> find_units(torch::nn::Module& model);

}  // namespace zeroshard
