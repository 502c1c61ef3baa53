// Device memory through host-only backends, with a real accelerator's memory.
#include <gtest/gtest.h>

#include "tests/comm/carry_support.h"
#include "tests/comm/contract.h"
#include "zeroshard/device/accelerators.h"
#include "zeroshard/device/backend.h"

namespace zeroshard {
namespace {

struct CarryCase {
  int ranks;
  std::int64_t part_bytes;
  std::int64_t large_count;
};

class CarryOnAccelerator : public testing::TestWithParam<CarryCase> {};

TEST_P(CarryOnAccelerator, Contract) {
  if (load_accelerators() == 0) {
    GTEST_SKIP() << "needs an accelerator: " << missing_reason(DeviceKind::cuda);
  }
  const auto& [ranks, part_bytes, large_count] = GetParam();
  const auto body = [count = large_count](Communicator& comm, TrafficLedger&) {
    contract::everything(comm, count, {DeviceKind::cuda, 0});
  };
  EXPECT_NO_THROW(run_carrying_ranks(ranks, {.part_bytes = part_bytes}, body));
}

INSTANTIATE_TEST_SUITE_P(Cases, CarryOnAccelerator,
                         testing::Values(CarryCase{2, 4 << 20, 8 << 20},
                                         CarryCase{3, 4 << 20, 4 << 20}, CarryCase{2, 1001, 20'000},
                                         CarryCase{3, 13, 500}));

}  // namespace
}  // namespace zeroshard
