// The masters that a rank owns, cut into runs of one parameter group: what an optimizer that is not
// ours updates. It sees flat fp32 tensors and their gradients, and no parameters.
#pragma once

#include <cstddef>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zeroshard/engine/flat_unit.h"
#include "zeroshard/engine/reducer.h"
#include "zeroshard/layout/placement.h"

namespace zeroshard {

class OptimizerStates;

struct MasterSegment {
  std::size_t unit = 0;
  std::size_t group = 0;                     // flat group
  int parameter_group = 0;                   // whose hyper-parameters it has
  Span span = {};                            // in the flat group
  std::vector<std::size_t> parameters = {};  // of the unit, that have elements in it
  at::Tensor master = {};
};

// `group_ids`: for each unit, each parameter's parameter group.
std::vector<MasterSegment> master_segments_of(const std::vector<FlatUnit*>& units,
                                              const std::vector<std::vector<int>>& group_ids,
                                              const OptimizerStates& states, const Stage& stage);

// In fp32 and times `factor`. Undefined where none of its parameters had a gradient on any rank;
// where only some had, the others' is zero.
at::Tensor master_gradient(const MasterSegment& segment, const Reducer::UnitGradients& gradients,
                           const std::vector<bool>& present, float factor);

}  // namespace zeroshard
