// Writes arrays (numeric/arrays.h). Subnormals are kept, unlike in the optimizers' kernels.
// nvcc: --ftz=false
#include "zeroshard/numeric/array_rule.h"
#include "zeroshard/numeric/cuda/chunk_loop.cuh"

namespace zeroshard::device_code {

__device__ inline void write_four(const ArrayWrite& write, std::int64_t i) {
  Four from = {{0.0F, 0.0F, 0.0F, 0.0F}}, old = {{0.0F, 0.0F, 0.0F, 0.0F}}, to;
  if (write.from != nullptr) from = load_four(write.from, write.from_dtype, i);
  if (write.adds) old = load_four(write.to, write.to_dtype, i);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    to.values[k] = written_value(write, from.values[k], old.values[k]);
  }
  store_four(write.to, write.to_dtype, i, to);
}

__device__ inline void write_chunk(const PlacedWrite& placed) {
  const ArrayWrite write = placed.write;
  const ArrayCut cut = placed.cut;
  for_each_in_chunk(
      cut, blockIdx.x - cut.first_chunk, [&](std::int64_t i) { write_element(write, i); },
      [&](std::int64_t i) { write_four(write, i); });
}

}  // namespace zeroshard::device_code

extern "C" __global__ void __launch_bounds__(zeroshard::kChunkThreads)
    zs_write_few(const zeroshard::FewWrites few, int count) {
  using namespace zeroshard::device_code;
  write_chunk(few.entries[entry_with(few.entries, count, blockIdx.x)]);
}

extern "C" __global__ void __launch_bounds__(zeroshard::kChunkThreads)
    zs_write_many(const zeroshard::PlacedWrite* table, int count) {
  using namespace zeroshard::device_code;
  write_chunk(table[entry_with(table, count, blockIdx.x)]);
}
