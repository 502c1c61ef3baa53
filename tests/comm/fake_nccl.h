// NCCL made of threads, for tests: ranks are threads of this process, and all of them share the
// fake accelerator. Its manners are the real one's: calls return before ranks have met, a group is
// one kernel, a kernel that was launched keeps its rank's device to itself until all ranks have
// launched theirs, and it only ends before that when its communicator is aborted.
//
//   const NcclLibrary& nccl = FakeNccl::library();
//   make_nccl_communicator(std::move(hosts), FakeAccelerator::device(), {.library = &nccl, ...});
#pragma once

#include <vector>

#include "zeroshard/comm/nccl_library.h"
#include "zeroshard/device/device.h"
#include "zeroshard/numeric/arrays.h"

namespace zeroshard {

class FakeNccl {
 public:
  static const NcclLibrary& library();

  // Communicators that exist, and those that were aborted so far.
  static int alive();
  static int aborted();
  // The next communicator that is made by rank `rank` fails in meeting.
  static void fail_meeting_of(int rank);
  // Launches of rank `rank` fail from now on; -1: none do.
  static void fail_launches_of(int rank);
};

// NcclOptions::write for the fake accelerator: a kernel on its current stream.
void write_arrays_on_fake(Device device, const std::vector<ArrayWrite>& all);

}  // namespace zeroshard
