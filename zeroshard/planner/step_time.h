// How long a step takes, and what it waits for.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "zeroshard/layout/activations.h"
#include "zeroshard/planner/footprint.h"
#include "zeroshard/planner/rates.h"

namespace zeroshard {

enum class Bottleneck { compute, network, copies, host };
inline constexpr std::array<Bottleneck, 4> kBottlenecks{Bottleneck::compute, Bottleneck::network,
                                                        Bottleneck::copies, Bottleneck::host};
std::string_view name_of(Bottleneck bottleneck);

// In seconds. The parts overlap, so that they add up to more than the step.
struct StepEstimate {
  double forward = 0;   // of one micro-step
  double backward = 0;  // of one micro-step
  double update = 0;    // on the device
  double network = 0;   // all collectives of the step, one after the other
  double exposed = 0;   // what of that is waited for
  double copies = 0;    // between device and host, the longer way
  double host = 0;      // updates on the host
  double step = 0;

  double compute(std::int64_t micro_steps) const {
    return static_cast<double>(micro_steps) * (forward + backward) + update;
  }
  // What takes longest by itself.
  Bottleneck bottleneck(std::int64_t micro_steps) const;
};

struct StepFacts {
  const ModelLayout& model;
  const FootprintOptions& options;
  const ModelActivations& activations;
  const Rates& rates;
  int ranks_per_node = 1;
  int nics_per_node = 0;  // 0: one for each rank
};

// The time by docs/scaling.md. Where nothing is overlapped what computes and what is sent add up;
// else the step is walked through (step_walk.h).
StepEstimate step_time(const StepFacts& facts);

// Of all collectives of a step: known where computation is not.
double network_seconds(const StepFacts& facts);

}  // namespace zeroshard
