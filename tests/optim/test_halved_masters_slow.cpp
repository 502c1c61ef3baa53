// Updates settle every one of the 2^32 patterns of a master, whole and in halves, in every
// instruction set.
#include <gtest/gtest.h>

#include "tests/numeric/master_patterns.h"
#include "tests/optim/optim_support.h"

namespace zeroshard {
namespace {

using testing::MasterPatterns;
using testing::same_bits;
using testing::States;

// An update that moves nothing reads masters, counts subnormals as zero, settles and writes.
TEST(HalvedMasterPatterns, EveryOneInEveryIsa) {
  ThreadPool pool(1);
  MasterPatterns all;
  States whole{.gradient_dtype = DType::bf16, .parameter_dtype = DType::bf16};
  whole.gradient16.resize(MasterPatterns::kCount);
  whole.parameter.resize(MasterPatterns::kCount);
  States halved = whole;
  halved.low.resize(MasterPatterns::kCount);
  std::vector<float> joined(MasterPatterns::kCount);
  const OptimizerOptions still = SgdOptions{.lr = 0.0};
  for (std::uint32_t upper = 0; upper < 0x10000U; ++upper) {
    all.set_upper(upper);
    const MasterHalves halves{halved.parameter.data(), halved.low.data()};
    for (const Isa isa : available_isas()) {
      whole.master = all.masters;
      halve_masters(kCpu, halves, all.masters.data(), MasterPatterns::kCount);
      halved.master.resize(MasterPatterns::kCount);
      update_span(still, whole.span(0, MasterPatterns::kCount), {}, pool, isa);
      update_span(still, halved.span(0, MasterPatterns::kCount), {}, pool, isa);
      join_masters(kCpu, joined.data(), halves, MasterPatterns::kCount);
      ASSERT_TRUE(same_bits(joined, whole.master)) << name_of(isa) << ", " << upper;
      ASSERT_TRUE(same_bits(halved.parameter, whole.parameter)) << name_of(isa) << ", " << upper;
      if ((upper & 0x7F80U) == 0) continue;  // subnormals
      ASSERT_TRUE(same_bits(whole.master, all.settled)) << name_of(isa) << ", " << upper;
    }
  }
}

}  // namespace
}  // namespace zeroshard
