#include "zeroshard/numeric/lanes_avx512.h"
#include "zeroshard/numeric/transfer_loops.h"

namespace zeroshard {
namespace {

// Filled by the compiler: nothing of this file runs before somebody has asked the CPU.
constinit const Transfers kAvx512Transfers = kernels::TransfersOf<kernels::Avx512Lanes>::all();

}  // namespace

const Transfers* avx512_transfers() { return &kAvx512Transfers; }

}  // namespace zeroshard
