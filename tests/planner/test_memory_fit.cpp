// What stays on the device under a budget, and what is said where memory is too small.
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/planner/bf16_at.h"
#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"
#include "zeroshard/planner/memory_fit.h"

namespace zeroshard {
namespace {

template <typename Thrown, typename Call>
std::string message_of_throw(const Call& call) {
  try {
    call();
  } catch (const Thrown& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// 8 units of 1 Mi elements on one rank: 2 MiB of parameters and 12 MiB of states and G each, 14 on
// the host, where masters are whole.
ModelLayout eight_units() { return equal_units(8 * kMiB, 8, DType::bf16, 1); }

TEST(MemoryFit, WithoutABudgetTheOptionsDecide) {
  EXPECT_EQ(fit_to_budgets(eight_units(), bf16_at(2)).first_host_unit, std::nullopt);
  FootprintOptions options = bf16_at(2);
  options.first_host_unit = 3;
  EXPECT_EQ(fit_to_budgets(eight_units(), options).first_host_unit, 3U);
}

TEST(MemoryFit, ABudgetKeepsAsManyUnitsAsFit) {
  FootprintOptions options = bf16_at(2);
  const auto fit = [&](std::int64_t mebibytes) {
    options.zero.device_budget_bytes = mebibytes * kMiB;
    return fit_to_budgets(eight_units(), options).first_host_unit;
  };
  EXPECT_EQ(fit(8 * 14), 8U) << "all of it";
  // Beside the states, 16 MiB of parameters and 2 MiB of gradients that pass.
  EXPECT_EQ(fit(8 * 14 - 1), 7U);
  EXPECT_EQ(fit(16 + 2 + 3 * 12), 3U);
  EXPECT_EQ(fit(16 + 2 + 3 * 12 - 1), 2U);
  EXPECT_EQ(fit(16 + 2), 0U);
}

TEST(MemoryFit, ABudgetBelowTheLeastSaysTheLeast) {
  FootprintOptions options = bf16_at(2);
  options.zero.device_budget_bytes = 10 * kMiB;
  EXPECT_EQ(message_of_throw<ConfigError>([&] { fit_to_budgets(eight_units(), options); }),
            "[config] zeroshard.device_budget is less than this model needs on the device with all "
            "optimizer states on the host: 10.00 MiB, while it needs 18.00 MiB; give at least "
            "\"18MiB\", or put the "
            "parameters on the host as well (stage 3 with offload_param)");
}

TEST(MemoryFit, AHostBudgetThatIsTooSmallSaysWhatWouldFit) {
  FootprintOptions options = bf16_at(2);
  options.offload.optimizer = Tier::host;
  // 8 x 14 MiB and three staging slots of 2 MiB.
  options.zero.host_budget_bytes = (8 * 14 + 6) * kMiB;
  EXPECT_EQ(fit_to_budgets(eight_units(), options).first_host_unit, std::nullopt);
  options.zero.host_budget_bytes = (4 * 14 + 6) * kMiB;
  EXPECT_EQ(message_of_throw<ConfigError>([&] { fit_to_budgets(eight_units(), options); }),
            "[config] zeroshard.host_budget is less than the plan puts on the host: 62.00 MiB, but "
            "gradients 16.00 MiB, master 32.00 MiB, moments 64.00 MiB, buffers 6.00 MiB, in all "
            "118.00 MiB; give at least \"118MiB\", or an offload_optimizer.ratio of 0.5 would fit, "
            "with 66.00 MiB on the device, or take more ranks, each of which then holds less");
  options.offload.optimizer_ratio = 0.5;
  EXPECT_EQ(fit_to_budgets(eight_units(), options).first_host_unit, std::nullopt)
      << "what was said would fit does";
}

TEST(MemoryFit, BothBudgetsMustHoldTheModel) {
  FootprintOptions options = bf16_at(0);
  options.zero.device_budget_bytes = (16 + 2 + 3 * 12) * kMiB;
  options.zero.host_budget_bytes = (4 * 14 + 6) * kMiB;
  const std::string said =
      message_of_throw<ConfigError>([&] { fit_to_budgets(eight_units(), options); });
  EXPECT_NE(said.find("or a zeroshard.device_budget of \"66MiB\" would fit"), std::string::npos)
      << said;
  options.zero.device_budget_bytes = 66 * kMiB;
  EXPECT_EQ(fit_to_budgets(eight_units(), options).first_host_unit, 4U);
}

TEST(MemoryFit, TheMachineMustHaveRoomForAllItsRanks) {
  FootprintOptions options = bf16_at(2);
  options.offload.optimizer = Tier::host;
  const ModelLayout model = equal_units(8 * kMiB, 8, DType::bf16, 4);
  // Each of four ranks: 28 MiB of states and G, three slots of half a MiB.
  HostRoom room{.bytes = 4 * 59 * kMiB / 2, .set_by = "/sys/fs/cgroup/memory.max", .ranks = 4};
  check_host_room(model, options, room);
  room.bytes -= 1;
  EXPECT_EQ(
      message_of_throw<StorageError>([&] { check_host_room(model, options, room); }),
      "[storage] the plan puts more on the host than it has memory for: gradients 4.00 MiB, master "
      "8.00 MiB, moments 16.00 MiB, buffers 1.50 MiB, in all 29.50 MiB for each of 4 ranks, 118.00 "
      "MiB, while 118.00 MiB can be had here by /sys/fs/cgroup/memory.max; an "
      "offload_optimizer.ratio of 0.875 would fit, with 35.00 MiB on the device, or give the ranks "
      "more memory, or take more hosts");
  room.held_bytes = 1;
  check_host_room(model, options, room);
  options.offload.optimizer_ratio = 0.875;
  room.held_bytes = 0;
  check_host_room(model, options, room);
}

TEST(MemoryFit, WhereParametersAloneAreTooManyTheyStay) {
  FootprintOptions options = bf16_at(3);
  options.offload = {.optimizer = Tier::host, .parameters = Tier::host};
  options.zero.persistence_numel = 0;
  const std::string said = message_of_throw<StorageError>(
      [&] { check_host_room(eight_units(), options, {.bytes = kMiB, .set_by = "/proc/meminfo"}); });
  EXPECT_NE(said.find("; leave offload_param out, or give the ranks more memory"),
            std::string::npos)
      << said;
}

ModelLayout random_model(std::mt19937& random, DType dtype, int ranks) {
  std::vector<UnitLayout> units;
  const int count = std::uniform_int_distribution<int>(1, 12)(random);
  for (int i = 0; i < count; ++i) {
    const auto numel = std::uniform_int_distribution<std::int64_t>(1, 200'000)(random);
    const bool trainable = std::uniform_int_distribution<int>(0, 4)(random) > 0;
    const std::string name = "unit." + std::to_string(i);
    units.emplace_back(
        name, std::vector<ParameterShape>{{name + ".weight", {numel}, dtype, trainable}}, ranks);
  }
  return ModelLayout(std::move(units));
}

class RandomBudgets : public testing::TestWithParam<unsigned> {};

TEST_P(RandomBudgets, FitAndAreMonotone) {
  std::mt19937 random(GetParam());
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 100; ++round) {
    const int ranks = pick(1, 4);
    const DType dtype = pick(0, 1) == 0 ? DType::bf16 : DType::fp32;
    const ModelLayout model = random_model(random, dtype, ranks);
    FootprintOptions options = bf16_at(pick(0, 3));
    options.precision.bf16.enabled = dtype == DType::bf16;
    options.offload.parameters = pick(0, 1) == 0 ? Tier::device : Tier::host;
    options.micro_steps = pick(1, 2);
    options.zero.persistence_numel = pick(0, 1) * 50'000;
    const auto device_at = [&](std::size_t first) {
      FootprintOptions at = options;
      at.first_host_unit = first;
      return footprint(model, at).total(Tier::device);
    };
    const std::size_t units = model.units().size();
    const std::int64_t least = device_at(0), most = device_at(units);
    std::size_t previous = 0;
    for (int i = 0; i <= 10; ++i) {
      const std::int64_t budget = least + (most - least) * i / 10;
      options.zero.device_budget_bytes = budget;
      const std::size_t first = fit_to_budgets(model, options).first_host_unit.value();
      EXPECT_LE(device_at(first), budget);
      EXPECT_GE(first, previous) << "a larger budget keeps no fewer units";
      if (first < units) {
        EXPECT_GT(device_at(first + 1), budget) << "one unit more would not fit";
      }
      previous = first;
    }
    EXPECT_EQ(previous, units);
    options.zero.device_budget_bytes = least - 1;
    EXPECT_THROW(fit_to_budgets(model, options), ConfigError);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomBudgets, testing::Values(1U, 2U, 3U, 4U));

}  // namespace
}  // namespace zeroshard
