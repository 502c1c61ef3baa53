// A trial of NCCL before anything depends on it: machines on which NCCL meets and then hangs, or
// brings other bytes than were sent, are common (containers without shared memory, direct access
// between GPUs behind a bridge that breaks it, networks that are up and lead nowhere).
//
//   const std::string failed = try_nccl(launches, *hosts, {.device = device, .time = time});
//
// Some KB are gathered, reduced and broadcast, and compared with what the host computes, bit by
// bit: the values are such that their sums are exact in any order, or, where the backend promises
// sums in rank order, such that the order shows. What travels is in no ledger of traffic.
#pragma once

#include <chrono>
#include <string>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/nccl_launches.h"

namespace zeroshard {

struct TrialOptions {
  Device device;
  bool deterministic = false;      // sums are in rank order
  std::chrono::milliseconds time;  // to meet; and as much again to move the bytes
};

// Collective; the same sentence on all ranks: what failed, on which rank, and which variables to
// look at; "" where all is well. Then the launches have met, and go on; else they were aborted, and
// nothing of them is left. What goes wrong between the hosts themselves is thrown.
std::string try_nccl(NcclLaunches& launches, Communicator& hosts, const TrialOptions& options);

}  // namespace zeroshard
