#include "zeroshard/layout/placement.h"

#include <cstddef>

#include "zeroshard/base/check.h"

namespace zeroshard {

const Stage& stage_row(int number) {
  ZS_CHECK_GE(number, 0, "no such stage");
  ZS_CHECK_LT(number, static_cast<int>(kStages.size()), "no such stage");
  return kStages[static_cast<std::size_t>(number)];
}

Collective collective_for(Placement from, Placement to) {
  if (from == to) return Collective::none;
  ZS_CHECK(to != Placement::partial, "a {} state cannot become partial", name_of(from));
  if (from == Placement::replicated) return Collective::slice;
  if (from == Placement::sharded) return Collective::all_gather;
  return to == Placement::sharded ? Collective::reduce_scatter : Collective::all_reduce;
}

std::string_view name_of(Placement placement) {
  switch (placement) {
    case Placement::replicated: return "replicated";
    case Placement::partial: return "partial";
    case Placement::sharded: return "sharded";
  }
  return "?";
}

std::string_view name_of(Collective collective) {
  switch (collective) {
    case Collective::none: return "none";
    case Collective::all_reduce: return "all_reduce";
    case Collective::reduce_scatter: return "reduce_scatter";
    case Collective::all_gather: return "all_gather";
    case Collective::slice: return "slice";
  }
  return "?";
}

}  // namespace zeroshard
