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
  // From now on; -1: of no rank any more. Launches fail; so does the second call of every group, of
  // which then nothing is launched; kernels wait until they are aborted;
  // communicators never come to the end of their meeting; sums are off by one unit in the last
  // place; what a gather brings has a bit too many.
  static void fail_launches_of(int rank);
  static void fail_second_calls_of(int rank);
  static void hang_kernels_of(int rank);
  static void hang_meeting_of(int rank);
  static void give_wrong_sums_to(int rank);
  static void give_wrong_gathers_to(int rank);
  static void behave();
  // What get_version() says, of all ranks.
  static void be_of_version(int code);
};

// NcclOptions::write for the fake accelerator: a kernel on its current stream.
void write_arrays_on_fake(Device device, const std::vector<ArrayWrite>& all);

}  // namespace zeroshard
