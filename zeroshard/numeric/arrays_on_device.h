// write_arrays() where there are arrays and they are an accelerator's. Included by arrays.cpp
// alone.
#pragma once

#include "zeroshard/numeric/arrays.h"

namespace zeroshard {

void write_arrays_on_device(Device device, const std::vector<ArrayWrite>& all);

}  // namespace zeroshard
