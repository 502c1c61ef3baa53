// Whole curves as lists, so that a test reads like the table it is checked against.
#pragma once

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/schedule/lr_schedule.h"

namespace zeroshard::test {

// The lr of iterations -1, 0, 1, ...: `count` values.
inline std::vector<double> lr_list(const ScheduleOptions& options, std::size_t count,
                                   double optimizer_lr = 1.0) {
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    const auto iteration = kFirstIteration + static_cast<std::int64_t>(i);
    values.push_back(schedule_at(options, iteration, optimizer_lr).lr);
  }
  return values;
}

inline std::vector<double> beta1_list(const ScheduleOptions& options, std::size_t count) {
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    const auto iteration = kFirstIteration + static_cast<std::int64_t>(i);
    values.push_back(schedule_at(options, iteration, 1.0).betas.value().beta1);
  }
  return values;
}

inline void expect_near(const std::vector<double>& got, const std::vector<double>& want,
                        double tolerance = 1e-6) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], tolerance) << "at iteration " << static_cast<int>(i) - 1;
  }
}

}  // namespace zeroshard::test
