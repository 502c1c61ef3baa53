#include "zeroshard/planner/overheads.h"

#include "zeroshard/base/bytes.h"

namespace zeroshard {
namespace {

// Measured with torch 2.11 on Linux: `zeroshard-train`, resident, and of those that share a library
// with other processes each all of it.
constexpr std::int64_t kProcess = 126 * kMiB;
constexpr std::int64_t kProcessWithCuda = 600 * kMiB;
// Code that the first step brings in, and what matrix products are packed into.
constexpr std::int64_t kFirstStep = 26 * kMiB;
constexpr std::int64_t kFirstStepOfBf16 = 8 * kMiB;
constexpr std::int64_t kFirstStepWithCuda = 400 * kMiB;
// MPI's shared memory, and the pages of it that a rank has touched.
constexpr std::int64_t kEachPeerOnHost = 6 * kMiB;
// A CUDA context with the kernels of a step, and the workspace of its matrix products.
constexpr std::int64_t kContext = 520 * kMiB;
constexpr std::int64_t kProductWorkspace = 64 * kMiB;

}  // namespace

ProcessOverheads process_overheads(const OverheadFacts& facts) {
  ProcessOverheads all;
  if (facts.accelerator) {
    all.at_start = {.device_bytes = kContext, .host_bytes = kProcessWithCuda};
    all.while_training = {.device_bytes = kProductWorkspace, .host_bytes = kFirstStepWithCuda};
  } else {
    all.at_start = {.host_bytes = kProcess};
    all.while_training = {.host_bytes = kFirstStep};
    if (facts.dtype == DType::bf16) all.while_training.host_bytes += kFirstStepOfBf16;
  }
  all.while_training.host_bytes += (facts.ranks_on_host - 1) * kEachPeerOnHost;
  return all;
}

}  // namespace zeroshard
