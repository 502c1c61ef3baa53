// Four neighbouring masters in two halves, which lie where four may be loaded at once.
#pragma once

#include "zeroshard/numeric/cuda/chunk_loop.cuh"
#include "zeroshard/numeric/master_rule.h"

namespace zeroshard::device_code {

__device__ inline Four load_halved_four(const std::uint16_t* parameter, const std::uint16_t* low) {
  const ushort4 upper = *reinterpret_cast<const ushort4*>(parameter);
  const ushort4 lower = *reinterpret_cast<const ushort4*>(low);
  return {{joined_master(upper.x, lower.x), joined_master(upper.y, lower.y),
           joined_master(upper.z, lower.z), joined_master(upper.w, lower.w)}};
}

// The lower halves of settled masters.
__device__ inline void store_low_four(std::uint16_t* low, const Four& masters) {
  const float* v = masters.values;
  *reinterpret_cast<ushort4*>(low) =
      make_ushort4(low_half(v[0]), low_half(v[1]), low_half(v[2]), low_half(v[3]));
}

}  // namespace zeroshard::device_code
