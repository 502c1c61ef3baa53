#include "zeroshard/numeric/lanes_avx2.h"
#include "zeroshard/numeric/transfer_loops.h"

namespace zeroshard {
namespace {

// Filled by the compiler: nothing of this file runs before somebody has asked the CPU.
constinit const Transfers kAvx2Transfers = kernels::TransfersOf<kernels::Avx2Lanes>::all();

}  // namespace

const Transfers* avx2_transfers() { return &kAvx2Transfers; }

}  // namespace zeroshard
