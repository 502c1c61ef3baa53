#include "zeroshard/numeric/lanes_scalar.h"
#include "zeroshard/numeric/transfer_loops.h"

namespace zeroshard {
namespace {

// Filled by the compiler: nothing of this file runs before somebody has asked the CPU.
constinit const Transfers kScalarTransfers = kernels::TransfersOf<kernels::ScalarLanes>::all();

}  // namespace

const Transfers* scalar_transfers() { return &kScalarTransfers; }

}  // namespace zeroshard
