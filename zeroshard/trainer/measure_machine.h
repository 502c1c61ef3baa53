// `zeroshard env --measure`: how fast this machine is with its ranks at work together, kept for the
// plans to come.
#pragma once

#include <string>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/device.h"
#include "zeroshard/planner/calibration.h"

namespace zeroshard {

struct MeasureOptions {
  std::string device;  // "cpu", "cuda", "cuda:1"; empty: cuda where there is one
  bool json = false;
};

// Every rank works; what comes of it is the slowest one's. Some ten seconds. Collective.
MachineMeasurement measure_machine(Device device, Communicator& comm);

// The whole of it on this rank: rank 0 keeps and prints the result. Returns the exit code.
int measure(const MeasureOptions& options);

}  // namespace zeroshard
