// The work of masters.h on an accelerator. Included by masters.cpp alone.
#pragma once

#include "zeroshard/device/device.h"
#include "zeroshard/numeric/master_rule.h"

namespace zeroshard {

// Waits for the number of ties that moved where the work settles; else it returns 0 at once.
std::int64_t work_on_masters_of_device(Device device, const MasterArrays& of);

}  // namespace zeroshard
