// What ranks agree on before an update: one small message from each of them.
#pragma once

#include <vector>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/engine/gather_schedule.h"

namespace zeroshard {

// What one rank has found in a step.
struct StepFindings {
  double sum_of_squares = 0.0;  // of the gradients it owns
  bool order_changed = false;   // units came in another order than planned
  std::vector<bool> present;    // by parameter: it had a gradient
};

struct StepAgreement {
  double norm = 0.0;           // of all gradients, scaled as they are
  bool order_changed = false;  // on rank 0, whose order counts
  std::vector<bool> present;   // by parameter: some rank had a gradient
};

StepAgreement agree(const StepFindings& own, Communicator& comm);

// Whether the last pass saw units in another order than the schedule has planned.
bool order_changed(const GatherSchedule& schedule);
// All ranks plan the order that rank 0 has seen, from the next pass on. Collective.
void adopt_order(GatherSchedule& schedule, Communicator& comm);

}  // namespace zeroshard
