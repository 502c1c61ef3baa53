#include "zeroshard/numeric/lanes_avx2.h"
#include "zeroshard/optim/kernel_table.h"

namespace zeroshard {
namespace {

// Filled by the compiler: nothing of this file runs before somebody has asked the CPU.
constinit const Kernels kAvx2Table = kernels::TableOf<kernels::Avx2Lanes>::all();

}  // namespace

const Kernels* avx2_kernels() { return &kAvx2Table; }

}  // namespace zeroshard
