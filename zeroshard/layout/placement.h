// Where a state lives across ranks, the stages as rows of a table of placements, and the collective
// that moves a state from one placement to another. Other code never asks which stage it is: it
// asks for a placement.
//
//   const Stage& stage = stage_row(2);
//   collective_for(Placement::partial, stage.gradients_reduced);  // Collective::reduce_scatter
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace zeroshard {

enum class Placement {
  replicated,  // every rank holds all of it
  partial,     // every rank holds its own addend of all of it
  sharded,     // rank r holds its span and nothing else
};

enum class Collective {
  none,
  all_reduce,
  reduce_scatter,
  all_gather,
  slice,  // keep the own span of what is here already: no message
};

// One row of the table.
struct Stage {
  int number;
  Placement parameters;
  Placement gradients_accumulating;  // after each micro-step but the last
  Placement gradients_reduced;       // after the last micro-step's reduction
  Placement optimizer_states;

  // Gathers are on the way of every forward where parameters are sharded; elsewhere one asks for
  // it.
  bool overlaps_by_default() const { return parameters == Placement::sharded; }

  // Whether G sums up several reductions in a step, and so is fp32.
  bool reductions_add_up(std::int64_t micro_steps) const {
    return micro_steps > 1 && gradients_accumulating == Placement::sharded;
  }

  bool operator==(const Stage& other) const = default;
};

inline constexpr std::array<Stage, 4> kStages = {{
    {0, Placement::replicated, Placement::partial, Placement::replicated, Placement::replicated},
    {1, Placement::replicated, Placement::partial, Placement::sharded, Placement::sharded},
    {2, Placement::replicated, Placement::sharded, Placement::sharded, Placement::sharded},
    {3, Placement::sharded, Placement::sharded, Placement::sharded, Placement::sharded},
}};

// The row of stage 0, 1, 2 or 3; any other number is an InvariantError (config checks it earlier).
const Stage& stage_row(int number);

// How a state gets from one placement to another. Nothing becomes partial except by computing it,
// so replicated or sharded to partial is an InvariantError.
Collective collective_for(Placement from, Placement to);

std::string_view name_of(Placement placement);
std::string_view name_of(Collective collective);

}  // namespace zeroshard
