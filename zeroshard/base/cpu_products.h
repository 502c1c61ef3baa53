// Which products of 16-bit numbers the CPU has instructions for.
#pragma once

#include "zeroshard/base/dtype.h"

namespace zeroshard {

// False where a product of such matrices is better done in fp32 (models/widened.h). What torch is
// forbidden to use counts as absent: its products would be as slow.
bool cpu_multiplies(DType dtype);

}  // namespace zeroshard
