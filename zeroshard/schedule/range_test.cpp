#include "zeroshard/schedule/range_test.h"

#include "zeroshard/base/check.h"

namespace zeroshard {

double lr_at(const LrRangeTestOptions& options, std::int64_t iteration) {
  ZS_CHECK_GT(options.step_size, 0, "lr_range_test_step_size");
  const std::int64_t updates = iteration + 1;
  // Integer division is the floor here: updates is never negative.
  const double steps = options.staircase ? static_cast<double>(updates / options.step_size)
                                         : static_cast<double>(updates) / options.step_size;
  return options.min_lr * (1.0 + options.step_rate * steps);
}

}  // namespace zeroshard
