// Bytes per rank, against numbers worked out by hand and properties over random models.
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/planner/footprint.h"

namespace zeroshard {
namespace {

FootprintOptions options_for(int stage, DType dtype) {
  FootprintOptions options;
  options.zero.stage = stage;
  options.precision.fp16.enabled = dtype == DType::fp16;
  options.precision.bf16.enabled = dtype == DType::bf16;
  return options;
}

// Two units on two ranks: 100 -> 128 padded, 64 per rank; and 200 -> 256 padded, 128 per rank.
ModelLayout two_units(DType dtype) {
  return ModelLayout({UnitLayout("a", {{"a.weight", {10, 10}, dtype}}, 2),
                      UnitLayout("b", {{"b.weight", {200}, dtype}}, 2)});
}

TEST(Footprint, HandCountedBf16AtEveryStage) {
  const ModelLayout model = two_units(DType::bf16);
  struct Expected {
    std::int64_t parameters, gradients, master, moments;
  };
  // Full: (128 + 256) elements; a rank's shard: (64 + 128), 16-bit shards rounded up to 256 bytes.
  const std::int64_t full16 = 256 + 512, shard16 = 256 + 256;
  const std::int64_t full32 = 512 + 1024, shard32 = 256 + 512;
  // Of a master the 16 bits that its parameter lacks.
  const std::vector<Expected> expected{{full16, full16, full16, 2 * full32},
                                       {full16, full16, shard16, 2 * shard32},
                                       {full16, shard16, shard16, 2 * shard32},
                                       {full16, shard16, shard16, 2 * shard32}};
  for (int stage = 0; stage < 4; ++stage) {
    SCOPED_TRACE(stage);
    // Both units are under the default persistence threshold, so stage 3 never releases them.
    const Footprint need = footprint(model, options_for(stage, DType::bf16));
    EXPECT_EQ(need.bytes(Category::parameters, Tier::device), expected[stage].parameters);
    EXPECT_EQ(need.bytes(Category::gradients, Tier::device), expected[stage].gradients);
    EXPECT_EQ(need.bytes(Category::master, Tier::device), expected[stage].master);
    EXPECT_EQ(need.bytes(Category::moments, Tier::device), expected[stage].moments);
  }
}

// The bucket of both units: 64 and 128 elements of a rank's, each place rounded up to 256 bytes.
TEST(Footprint, SumsOnDevicesNeedMemoryThere) {
  const ModelLayout model = two_units(DType::bf16);
  for (int stage = 0; stage < 4; ++stage) {
    SCOPED_TRACE(stage);
    FootprintOptions options = options_for(stage, DType::bf16);
    const Footprint without = footprint(model, options);
    const auto sums = [&](DeviceSums by) {
      options.sums = by;
      const Footprint need = footprint(model, options);
      const std::int64_t bytes = need.buffers(BufferUse::sums, Tier::device);
      EXPECT_EQ(need.total(Tier::device), without.total(Tier::device) + bytes);
      EXPECT_EQ(need.total(Tier::host), without.total(Tier::host));
      return bytes;
    };
    EXPECT_EQ(sums(DeviceSums::none), 0);
    EXPECT_EQ(sums(DeviceSums::library), 0) << "two ranks: the mean is a power of two";
    EXPECT_EQ(sums(DeviceSums::rank_order), (256 + 256) + (512 + 256));
    options.micro_steps = 2;  // where G is fp32, and added to
    const bool adds_up = stage >= 2;
    options.sums = DeviceSums::library;
    EXPECT_EQ(footprint(model, options).buffers(BufferUse::sums, Tier::device),
              adds_up ? 256 + 256 : 0);
  }
}

TEST(Footprint, MastersAreHalvedWhereTheirParametersAre) {
  const ModelLayout model = equal_units(8 * 6400, 8, DType::bf16, 1);
  FootprintOptions options = options_for(3, DType::bf16);
  options.zero.persistence_numel = 0;
  const auto masters = [&](Tier tier) {
    return footprint(model, options).bytes(Category::master, tier);
  };
  EXPECT_EQ(masters(Tier::device), 8 * 12800);
  options.offload.optimizer = Tier::host;
  EXPECT_EQ(masters(Tier::host), 8 * 25600) << "the parameters are on the device";
  options.offload.parameters = Tier::host;
  EXPECT_EQ(masters(Tier::host), 8 * 12800) << "both are on the host";
  options.offload.optimizer_ratio = 0.25;
  EXPECT_EQ(masters(Tier::host), 2 * 12800);
  EXPECT_EQ(masters(Tier::device), 6 * 25600) << "their parameters are on the host";
  options.zero.halved_masters = false;
  EXPECT_EQ(masters(Tier::host), 2 * 25600);
}

TEST(Footprint, ReleasedUnitsHoldShardsAndAPool) {
  FootprintOptions options = options_for(3, DType::bf16);
  options.zero.persistence_numel = 0;
  options.zero.prefetch_numel = 0;
  options.zero.overlap_comm = false;
  const Footprint need = footprint(two_units(DType::bf16), options);
  EXPECT_EQ(need.bytes(Category::parameters, Tier::device), 256 + 256);
  // One slot, which the units take in turn, and one bucket of both.
  const std::int64_t bucket = (128 + 256) * 2;
  EXPECT_EQ(need.bytes(Category::buffers, Tier::device), 512 + bucket);
}

TEST(Footprint, Fp32IsItsOwnMasterUnlessTheStatesLeave) {
  FootprintOptions options = options_for(2, DType::fp32);
  const ModelLayout model = two_units(DType::fp32);
  EXPECT_EQ(footprint(model, options).bytes(Category::master, Tier::device), 0);
  options.offload.optimizer = Tier::host;
  const Footprint offloaded = footprint(model, options);
  EXPECT_EQ(offloaded.bytes(Category::master, Tier::device), 0);
  EXPECT_EQ(offloaded.bytes(Category::master, Tier::host), 256 + 512);
}

TEST(Footprint, HandCountedBf16WithTheOptimizerOnTheHost) {
  const ModelLayout model = two_units(DType::bf16);
  struct Expected {
    std::int64_t local_gradients, reduced_gradients, master, staging;
  };
  const std::int64_t full16 = 256 + 512, shard16 = 256 + 256;
  const std::int64_t full32 = 512 + 1024, shard32 = 256 + 512;
  // Three slots of the larger unit's new values.
  const std::vector<Expected> expected{{full16, full16, full32, 3 * 512},
                                       {full16, shard16, shard32, 3 * 256},
                                       {0, shard16, shard32, 3 * 256},
                                       {0, shard16, shard32, 3 * 256}};
  for (int stage = 0; stage < 4; ++stage) {
    SCOPED_TRACE(stage);
    FootprintOptions options = options_for(stage, DType::bf16);
    options.offload.optimizer = Tier::host;
    const Footprint need = footprint(model, options);
    EXPECT_EQ(need.bytes(Category::parameters, Tier::device), full16);
    EXPECT_EQ(need.bytes(Category::parameters, Tier::host), 0);
    EXPECT_EQ(need.bytes(Category::gradients, Tier::device), expected[stage].local_gradients);
    EXPECT_EQ(need.bytes(Category::gradients, Tier::host), expected[stage].reduced_gradients);
    EXPECT_EQ(need.bytes(Category::master, Tier::device), 0);
    EXPECT_EQ(need.bytes(Category::master, Tier::host), expected[stage].master);
    EXPECT_EQ(need.bytes(Category::moments, Tier::host), 2 * expected[stage].master);
    EXPECT_EQ(need.bytes(Category::buffers, Tier::host), expected[stage].staging);
  }
}

TEST(Footprint, OneRanksGradientsPassThroughTheDevice) {
  const ModelLayout model = equal_units(4 * 6400, 4, DType::bf16, 1);
  for (int stage = 0; stage < 4; ++stage) {
    SCOPED_TRACE(stage);
    FootprintOptions options = options_for(stage, DType::bf16);
    options.offload.optimizer = Tier::host;
    options.offload.optimizer_ratio = 0.5;
    const Footprint need = footprint(model, options);
    // Two units' gradients that are held, and one of the host's that passes.
    EXPECT_EQ(need.bytes(Category::gradients, Tier::device), (2 + 1) * 12800);
    EXPECT_EQ(need.bytes(Category::gradients, Tier::host), 2 * 12800);
    EXPECT_EQ(need.bytes(Category::moments, Tier::host), 2 * 2 * 25600);
    EXPECT_EQ(need.bytes(Category::moments, Tier::device), 2 * 2 * 25600);
    EXPECT_EQ(need.bytes(Category::buffers, Tier::host), 3 * 12800);
  }
}

TEST(Footprint, ParametersOnTheHostAreGatheredIntoAPoolAlsoByOneRank) {
  const ModelLayout model = equal_units(4 * 6400, 4, DType::bf16, 1);
  FootprintOptions options = options_for(3, DType::bf16);
  options.offload = {.optimizer = Tier::host, .parameters = Tier::host};
  options.zero.persistence_numel = 0;
  options.zero.prefetch_numel = 0;
  const Footprint need = footprint(model, options);
  EXPECT_EQ(need.bytes(Category::parameters, Tier::device), 0);
  EXPECT_EQ(need.bytes(Category::parameters, Tier::host), 4 * 12800);
  EXPECT_EQ(need.bytes(Category::buffers, Tier::device), 12800);
  EXPECT_EQ(need.bytes(Category::buffers, Tier::host), 0);
  options.zero.persistence_numel = 6400;
  const Footprint persistent = footprint(model, options);
  EXPECT_EQ(persistent.bytes(Category::parameters, Tier::device), 4 * 12800);
  EXPECT_EQ(persistent.bytes(Category::parameters, Tier::host), 0);
}

TEST(Footprint, TheNormIsSummedUpWhereGLies) {
  const ModelLayout model = equal_units(4 * 6400, 4, DType::bf16, 1);
  FootprintOptions options = options_for(2, DType::bf16);
  options.accelerator = true;
  EXPECT_GT(footprint(model, options).bytes(Category::buffers, Tier::device), 0);
  options.offload.optimizer = Tier::host;
  EXPECT_EQ(footprint(model, options).bytes(Category::buffers, Tier::device), 0);
}

TEST(Footprint, FrozenGroupsHaveParametersOnly) {
  const ModelLayout model(
      {UnitLayout("a", {{"base", {6400}, DType::bf16, false}, {"lora", {64}, DType::bf16}}, 1)});
  const Footprint need = footprint(model, options_for(0, DType::bf16));
  EXPECT_EQ(need.bytes(Category::parameters, Tier::device), 12800 + 256);
  EXPECT_EQ(need.bytes(Category::moments, Tier::device), 2 * 256);
  EXPECT_EQ(need.bytes(Category::gradients, Tier::device), 256);
}

TEST(Footprint, OneRankGathersAndReducesNothing) {
  const ModelLayout model = equal_units(1'000'000, 4, DType::bf16, 1);
  for (int stage = 0; stage < 4; ++stage) {
    const FootprintOptions options = options_for(stage, DType::bf16);
    EXPECT_EQ(footprint(model, options).bytes(Category::buffers, Tier::device), 0) << stage;
    EXPECT_EQ(bytes_sent_per_step(model, options), 0) << stage;
  }
}

TEST(Footprint, MomentsFollowTheOptimizer) {
  Config config;
  EXPECT_EQ(footprint_options(config, 1).moments_per_parameter, 2);
  config.optimizer = SgdOptions{};
  EXPECT_EQ(footprint_options(config, 1).moments_per_parameter, 0);
  config.optimizer = SgdOptions{.momentum = 0.9};
  EXPECT_EQ(footprint_options(config, 1).moments_per_parameter, 1);
  config.optimizer = LionOptions{};
  EXPECT_EQ(footprint_options(config, 1).moments_per_parameter, 1);
}

TEST(Footprint, TrafficIsTheDesignsTable) {
  // No padding: 64 * ranks divides every unit.
  const int ranks = 4;
  const std::int64_t numel = 64 * ranks * 1000;
  const ModelLayout model = equal_units(numel * 3, 3, DType::bf16, ranks);
  for (const std::int64_t a : {1, 2, 5}) {
    const std::vector<std::int64_t> crossings{2, 2, a + 1, a + 2 * a};
    for (int stage = 0; stage < 4; ++stage) {
      FootprintOptions options = options_for(stage, DType::bf16);
      options.micro_steps = a;
      options.zero.persistence_numel = 0;
      const std::int64_t one_crossing = 3 * numel * 2 / ranks * (ranks - 1);
      EXPECT_EQ(bytes_sent_per_step(model, options), crossings[stage] * one_crossing)
          << "stage " << stage << ", a = " << a;
    }
  }
}

class RandomModels : public testing::TestWithParam<unsigned> {};

TEST_P(RandomModels, HigherStagesNeverHoldMoreAndOffloadOnlyMoves) {
  std::mt19937 random(GetParam());
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 50; ++round) {
    const int ranks = pick(1, 16);
    const DType dtype = std::vector{DType::fp32, DType::bf16, DType::fp16}[pick(0, 2)];
    const ModelLayout model = equal_units(pick(0, 5'000'000), pick(1, 12), dtype, ranks);
    std::int64_t previous = std::numeric_limits<std::int64_t>::max();
    for (int stage = 0; stage < 4; ++stage) {
      FootprintOptions options = options_for(stage, dtype);
      options.zero.persistence_numel = pick(0, 1) * 100'000;
      const Footprint here = footprint(model, options);
      EXPECT_LE(here.states(Tier::device), previous);
      previous = here.states(Tier::device);

      options.offload.optimizer = Tier::host;
      options.offload.optimizer_ratio = pick(0, 4) / 4.0;
      const Footprint away = footprint(model, options);
      const auto both = [&](const Footprint& f, Category c) {
        return f.bytes(c, Tier::device) + f.bytes(c, Tier::host);
      };
      EXPECT_EQ(both(away, Category::parameters), both(here, Category::parameters));
      EXPECT_EQ(both(away, Category::moments), both(here, Category::moments));
      if (options.offload.optimizer_ratio == 0.0) {
        EXPECT_EQ(away.states(Tier::host), 0);
      }
      if (options.offload.optimizer_ratio == 1.0) {
        EXPECT_EQ(away.bytes(Category::moments, Tier::device), 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomModels, testing::Values(1U, 2U, 3U, 4U));

}  // namespace
}  // namespace zeroshard
