#include "zeroshard/numeric/lanes_scalar.h"
#include "zeroshard/optim/kernel_table.h"

namespace zeroshard {
namespace {

// Filled by the compiler: nothing of this file runs before somebody has asked the CPU.
constinit const Kernels kScalarTable = kernels::TableOf<kernels::ScalarLanes>::all();

}  // namespace

const Kernels* scalar_kernels() { return &kScalarTable; }

}  // namespace zeroshard
