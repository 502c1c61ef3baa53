// Which units' states lie on the host, and the rings between the tiers.
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/layout/tier_plan.h"

namespace zeroshard {
namespace {

TEST(FirstHostUnit, AllForOneAndNoneForZero) {
  const std::vector<std::int64_t> units{0, 100, 50, 0, 200};
  EXPECT_EQ(first_host_unit(units, 1.0), 0U);
  EXPECT_EQ(first_host_unit(units, 0.0), 5U);
  EXPECT_EQ(first_host_unit({}, 1.0), 0U);
  EXPECT_EQ(first_host_unit({}, 0.0), 0U);
}

TEST(FirstHostUnit, IsTheSmallestSuffixThatHoldsTheRatio) {
  const std::vector<std::int64_t> ten(10, 1'000'000);
  for (int tenths = 0; tenths <= 10; ++tenths) {
    EXPECT_EQ(first_host_unit(ten, tenths / 10.0), 10U - tenths) << tenths;
  }
  EXPECT_EQ(first_host_unit({100, 50, 200}, 0.5), 2U);
  EXPECT_EQ(first_host_unit({100, 50, 200}, 0.6), 1U);
  EXPECT_EQ(first_host_unit({100, 50, 200}, 0.9), 0U);
}

TEST(FirstHostUnit, RefusesWhatIsNoShare) {
  EXPECT_THROW(first_host_unit({1}, -0.1), InvariantError);
  EXPECT_THROW(first_host_unit({1}, 1.1), InvariantError);
}

TEST(FirstHostUnit, HoldsForRandomUnits) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::int64_t> units(std::uniform_int_distribution<std::size_t>(1, 12)(random));
    for (std::int64_t& numel : units) {
      numel = std::uniform_int_distribution<std::int64_t>(0, 5)(random) * 64;
    }
    const double total = std::accumulate(units.begin(), units.end(), 0.0);
    double smaller = std::uniform_real_distribution<double>(0, 1)(random);
    double larger = std::uniform_real_distribution<double>(0, 1)(random);
    if (smaller > larger) std::swap(smaller, larger);
    const std::size_t first = first_host_unit(units, larger);
    EXPECT_LE(first, first_host_unit(units, smaller)) << "a larger ratio takes no fewer units";
    const auto at = units.begin() + static_cast<std::ptrdiff_t>(first);
    const double on_host = std::accumulate(at, units.end(), 0.0);
    EXPECT_GE(on_host, larger * total - 0.5);
    if (first < units.size()) {
      EXPECT_LT(on_host - static_cast<double>(*at), larger * total + 0.5)
          << "one unit fewer would do";
    }
  }
}

// 1000 and 2000 elements: 1024 and 2048 padded; on two ranks 512 and 1024 for each.
std::vector<UnitLayout> two_units(int ranks, DType dtype = DType::bf16) {
  return {UnitLayout("a", {{"a.weight", {1000}, dtype}}, ranks),
          UnitLayout("b", {{"b.weight", {2000}, dtype}}, ranks)};
}

TierPlan plan(const std::vector<UnitLayout>& units, std::vector<bool> resident,
              const TierPlanOptions& options) {
  std::vector<const UnitLayout*> pointers;
  for (const UnitLayout& unit : units) pointers.push_back(&unit);
  return plan_tiers(pointers, resident, options);
}

TierPlanOptions with_optimizer_on_host(int stage) {
  return {.stage = stage_row(stage),
          .offload = {.optimizer = Tier::host},
          .gradients = {.reduced = DType::bf16}};
}

TEST(TierPlan, EverythingIsOnTheDeviceByDefault) {
  const TierPlan made = plan(two_units(2), {true, true}, {});
  EXPECT_EQ(made.first_host_unit, 2U);
  EXPECT_EQ(made.optimizer(1), Tier::device);
  EXPECT_EQ(made.shard(false), Tier::device);
  EXPECT_EQ(made.staging, Ring{});
  EXPECT_EQ(made.values_down, Ring{});
  EXPECT_EQ(made.passing_gradient_bytes, 0);
}

TEST(TierPlan, NewValuesGoUpThroughARing) {
  const TierPlan sharded = plan(two_units(2), {true, true}, with_optimizer_on_host(2));
  EXPECT_EQ(sharded.first_host_unit, 0U);
  EXPECT_EQ(sharded.staging, (Ring{2048, 3, 3 * 2048}));
  EXPECT_EQ(sharded.passing_gradient_bytes, 0) << "reductions write G on the host";
  const TierPlan replicated = plan(two_units(2), {true, true}, with_optimizer_on_host(0));
  EXPECT_EQ(replicated.staging.slot_bytes, 4096);
}

TEST(TierPlan, RingsAreBounded) {
  const std::vector<UnitLayout> large{
      UnitLayout("a", {{"a.weight", {1'000'000'000}, DType::bf16}}, 1)};
  EXPECT_EQ(plan(large, {true}, with_optimizer_on_host(2)).staging.slot_bytes, 64 << 20);
}

// A delayed update leaves the ring to gradients, and writes what nobody sends over and over.
TEST(TierPlan, DelayedUpdatesHaveAPieceOfTheirOwn) {
  TierPlanOptions options = with_optimizer_on_host(2);
  EXPECT_EQ(plan(two_units(2), {true, true}, options).unsent_bytes, 0);
  options.delays = true;
  EXPECT_EQ(plan(two_units(2), {true, true}, options).unsent_bytes, 2048);
  EXPECT_EQ(plan(two_units(2, DType::fp32), {true, true}, options).unsent_bytes, 0);
  const std::vector<UnitLayout> large{
      UnitLayout("a", {{"a.weight", {1'000'000'000}, DType::bf16}}, 1)};
  EXPECT_EQ(plan(large, {true}, options).unsent_bytes, 1 << 20);
  options.offload.optimizer = Tier::device;
  EXPECT_EQ(plan(two_units(2), {true, true}, options).unsent_bytes, 0);
}

TEST(TierPlan, AnFp32MasterGoesUpItself) {
  TierPlanOptions options = with_optimizer_on_host(2);
  options.gradients.reduced = DType::fp32;
  EXPECT_EQ(plan(two_units(2, DType::fp32), {true, true}, options).staging, Ring{});
}

TEST(TierPlan, OnlyHostUnitsPass) {
  TierPlanOptions options = with_optimizer_on_host(2);
  options.offload.optimizer_ratio = 0.5;
  EXPECT_EQ(plan(two_units(1), {true, true}, options).first_host_unit, 1U);
  options.first_host_unit = 2;
  const TierPlan none = plan(two_units(1), {true, true}, options);
  EXPECT_EQ(none.first_host_unit, 2U) << "the budget's answer counts, and not the ratio";
  EXPECT_EQ(none.staging, Ring{});
  options.first_host_unit = 100;
  EXPECT_EQ(plan(two_units(1), {true, true}, options).first_host_unit, 2U);
}

TEST(TierPlan, GradientsOfOneRankPassThroughTheDevice) {
  for (int stage = 0; stage < 4; ++stage) {
    TierPlanOptions options = with_optimizer_on_host(stage);
    EXPECT_EQ(plan(two_units(1), {true, true}, options).passing_gradient_bytes, 4096) << stage;
    options.micro_steps = 2;
    const bool kept = stage < 2;
    EXPECT_EQ(plan(two_units(1), {true, true}, options).passing_gradient_bytes, kept ? 0 : 4096);
    EXPECT_EQ(plan(two_units(2), {true, true}, options).passing_gradient_bytes, 0);
  }
}

TEST(TierPlan, TorchsOwnGradientsOfEachUnit) {
  const TierPlan passing = plan(two_units(1), {true, true}, with_optimizer_on_host(2));
  EXPECT_EQ(passing.gradients[0].passing_bytes, 2048);
  EXPECT_EQ(passing.gradients[1].passing_bytes, 4096);
  EXPECT_EQ(passing.gradients[1].held_bytes, 0);
  TierPlanOptions options{
      .gradients = {.communication = DType::bf16, .reduced = DType::bf16}};  // added up in fp32
  const auto held = [&](int ranks) {
    return plan(two_units(ranks), {true, true}, options).gradients[1].held_bytes;
  };
  EXPECT_EQ(held(1), 4096) << "in their own dtype";
  EXPECT_EQ(held(2), 0);
  options.gradients.scaled = true;
  EXPECT_EQ(held(1), 0);
  options.gradients.scaled = false;
  options.micro_steps = 2;
  EXPECT_EQ(held(1), 0);
}

TEST(TierPlan, ParametersLeaveWhereTheyAreSharded) {
  TierPlanOptions options = with_optimizer_on_host(3);
  options.offload.parameters = Tier::host;
  const TierPlan both = plan(two_units(2), {false, false}, options);
  EXPECT_EQ(both.shard(false), Tier::host);
  EXPECT_EQ(both.shard(true), Tier::device);
  EXPECT_EQ(both.staging, Ring{}) << "updates write the shards on the host";
  EXPECT_EQ(both.values_down, Ring{});
  EXPECT_EQ(plan(two_units(2), {true, false}, options).staging.slot_bytes, 1024)
      << "a resident unit's values go up";
  options.offload.optimizer = Tier::device;
  EXPECT_EQ(plan(two_units(2), {true, false}, options).values_down, (Ring{2048, 3, 3 * 2048}));
  options.stage = stage_row(2);
  EXPECT_EQ(plan(two_units(2), {true, true}, options).parameters, Tier::device);
}

TEST(TierPlan, MastersTakeWhatTheirParametersLackOnOneTier) {
  for (const Tier tier : {Tier::device, Tier::host}) {
    EXPECT_EQ(master_form(DType::fp32, tier, tier, true), MasterForm::parameter);
    EXPECT_EQ(master_form(DType::bf16, tier, tier, true), MasterForm::halved);
    EXPECT_EQ(master_form(DType::bf16, tier, tier, false), MasterForm::whole);
    EXPECT_EQ(master_form(DType::fp16, tier, tier, true), MasterForm::whole);
  }
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    EXPECT_EQ(master_form(dtype, Tier::device, Tier::host, true), MasterForm::whole);
    EXPECT_EQ(master_form(dtype, Tier::host, Tier::device, true), MasterForm::whole);
  }
  EXPECT_EQ(stored_bytes(MasterForm::parameter), 0);
  EXPECT_EQ(stored_bytes(MasterForm::halved), 2);
  EXPECT_EQ(stored_bytes(MasterForm::whole), 4);
}

}  // namespace
}  // namespace zeroshard
