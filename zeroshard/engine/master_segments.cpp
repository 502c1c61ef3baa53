#include "zeroshard/engine/master_segments.h"

#include <algorithm>

#include <ATen/ops/zeros_like.h>

#include "zeroshard/engine/optimizer_states.h"
#include "zeroshard/engine/tensors.h"
#include "zeroshard/layout/segment.h"

namespace zeroshard {
namespace {

std::vector<std::size_t> parameters_in(const FlatGroup& group, const Span& span) {
  std::vector<std::size_t> inside;
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    const Span& parameter = group.layout.parameter_span(i);
    const bool apart = parameter.end() <= span.begin() || span.end() <= parameter.begin();
    if (!apart) inside.push_back(group.parameters[i]);
  }
  return inside;
}

// Where a flat group's masters lie, and what of them the rank owns.
struct OwnedGroup {
  std::size_t unit = 0;
  std::size_t group = 0;
  const FlatUnit& flat;
  at::Tensor masters = {};
  bool sharded = false;
};

void append_segments(const OwnedGroup& owned, const std::vector<int>& ids, int rank,
                     std::vector<MasterSegment>& all) {
  const FlatGroup& flat = owned.flat.layout().groups()[owned.group];
  const std::int64_t begin = owned.sharded ? owned.flat.shard_begin(owned.group) : 0;
  for (const Segment& segment : segments_of(flat.layout, ids, rank)) {
    const std::int64_t offset = segment.span.begin() - begin;
    all.push_back({.unit = owned.unit,
                   .group = owned.group,
                   .parameter_group = segment.hyper_parameters,
                   .span = segment.span,
                   .parameters = parameters_in(flat, segment.span),
                   .master = owned.masters.narrow(0, offset, segment.span.size())});
  }
}

}  // namespace

std::vector<MasterSegment> master_segments_of(const std::vector<FlatUnit*>& units,
                                              const std::vector<std::vector<int>>& group_ids,
                                              const OptimizerStates& states, const Stage& stage) {
  std::vector<MasterSegment> all;
  const bool sharded = stage.optimizer_states == Placement::sharded;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    const auto& groups = units[unit]->layout().groups();
    for (std::size_t group = 0; group < groups.size(); ++group) {
      if (!groups[group].trainable) continue;
      std::vector<int> ids;
      for (const std::size_t parameter : groups[group].parameters) {
        ids.push_back(group_ids[unit][parameter]);
      }
      const OwnedGroup owned{unit, group, *units[unit], states.masters(unit, group), sharded};
      const int first = sharded ? units[unit]->rank() : 0;
      const int last = sharded ? first : groups[group].layout.world_size() - 1;
      for (int rank = first; rank <= last; ++rank) append_segments(owned, ids, rank, all);
    }
  }
  return all;
}

at::Tensor master_gradient(const MasterSegment& segment, const Reducer::UnitGradients& gradients,
                           const std::vector<bool>& present, float factor) {
  const bool any = std::ranges::any_of(segment.parameters,
                                       [&](std::size_t parameter) { return present[parameter]; });
  if (!any) return {};
  const GradientGroup& group = gradients.groups[*gradients.group_of[segment.group]];
  const at::Tensor all = at::zeros_like(segment.master);
  for (const GradientGroup::ReducedPiece& piece : group.reduced(segment.span)) {
    const ConstPiece& values = piece.values;
    all.narrow(0, piece.offset, values.count)
        .copy_(tensor_over(const_cast<void*>(values.data), values.count, values.dtype,
                           zeroshard::device_of(segment.master)));
  }
  return all.mul_(factor);
}

}  // namespace zeroshard
