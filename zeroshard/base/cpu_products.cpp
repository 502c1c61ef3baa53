#include "zeroshard/base/cpu_products.h"

#include "zeroshard/base/held_instructions.h"

namespace zeroshard {

bool cpu_multiplies(DType dtype) {
#if defined(__x86_64__)
  static const bool held = held_below_avx512();
  static const bool bf16 = !held && (__builtin_cpu_supports("avx512bf16") != 0 ||
                                     __builtin_cpu_supports("amx-bf16") != 0);
  static const bool fp16 = !held && __builtin_cpu_supports("avx512fp16") != 0;
  if (dtype == DType::bf16) return bf16;
  if (dtype == DType::fp16) return fp16;
#endif
  return true;  // not measured elsewhere: torch's own way
}

}  // namespace zeroshard
