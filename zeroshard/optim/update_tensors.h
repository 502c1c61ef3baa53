// One optimizer step over a span on an accelerator: update.h's rules, in torch's operators. The
// same operations on every element, though a device's own square root or division may round
// differently from the host's.
#pragma once

#include "zeroshard/device/device.h"
#include "zeroshard/optim/update.h"

namespace zeroshard {

// Takes the same spans as update_span(), with pointers of that device. In the order of torch's
// current stream.
void update_span_on(Device device, const OptimizerOptions& options, const UpdateSpan& span,
                    const StepScalars& scalars);

// The norm's kernel there: fp64, blocks of any size.
double sum_of_squares_on(Device device, const void* data, DType dtype, std::int64_t count);

}  // namespace zeroshard
