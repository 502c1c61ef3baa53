#include "zeroshard/optim/kernels.h"

#include "zeroshard/base/check.h"

namespace zeroshard {

const Kernels& kernels_of(Isa isa) {
  ZS_CHECK(is_available(isa), "no {} kernels on this machine", name_of(isa));
  switch (isa) {
    case Isa::scalar: break;
    case Isa::avx2: return *avx2_kernels();
    case Isa::avx512: return *avx512_kernels();
  }
  return *scalar_kernels();
}

}  // namespace zeroshard
