// In place of kernels_avx2.cpp and kernels_avx512.cpp where the target is no x86.
#include "zeroshard/optim/kernels.h"

namespace zeroshard {

const Kernels* avx2_kernels() { return nullptr; }
const Kernels* avx512_kernels() { return nullptr; }

}  // namespace zeroshard
