#include "zeroshard/numeric/lanes_avx512.h"
#include "zeroshard/optim/kernel_table.h"

namespace zeroshard {
namespace {

// Filled by the compiler: nothing of this file runs before somebody has asked the CPU.
constinit const Kernels kAvx512Table = kernels::TableOf<kernels::Avx512Lanes>::all();

}  // namespace

const Kernels* avx512_kernels() { return &kAvx512Table; }

}  // namespace zeroshard
