// Whole masters into halves and back (numeric/masters.h). No number is computed, bits are moved.
// nvcc: --ftz=false
#include "zeroshard/numeric/chunks.h"
#include "zeroshard/numeric/master_rule.h"

namespace zeroshard::device_code {

// `moved` counts ties; they are so rare that a thread adds each by itself.
__device__ inline void work_on_element(const MasterArrays& of, std::int64_t i,
                                       unsigned long long* moved) {
  if (of.work == MasterWork::join) {
    join_element(of, i);
  } else if (of.work == MasterWork::forget) {
    forget_element(of, i);
  } else if (settle_element(of, i) == 1U) {
    atomicAdd(moved, 1ULL);
  }
}

}  // namespace zeroshard::device_code

extern "C" __global__ void __launch_bounds__(zeroshard::kChunkThreads)
    zs_masters(const zeroshard::MasterArrays of, unsigned long long* moved) {
  const std::int64_t begin = blockIdx.x * zeroshard::kChunk;
  const std::int64_t end = begin + zeroshard::kChunk < of.count ? begin + zeroshard::kChunk : of.count;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += zeroshard::kChunkThreads) {
    zeroshard::device_code::work_on_element(of, i, moved);
  }
}
