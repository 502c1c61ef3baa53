// The tree, the largest that fits, a device that is filled, and how fast a step is.
#include <memory>

#include <gtest/gtest.h>

#include "zeroshard/planner/decision.h"
#include "zeroshard/planner/largest.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kGB = 1'000'000'000;

// 8 billion parameters on one rank, fp16 with whole masters: 16, 16 and 96 GB.
struct Subject {
  std::unique_ptr<PlannedModel> model = counted_model(8 * kGB, {.units = 32});
  PlanSubject subject{
      .model = model.get(), .options = [](const Variant& variant, std::int64_t) {
        FootprintOptions options;
        options.precision.fp16.enabled = true;
        options.zero.stage = variant.stage;
        options.offload.optimizer = variant.optimizer_on_host ? Tier::host : Tier::device;
        options.offload.parameters = variant.parameters_on_host ? Tier::host : Tier::device;
        return options;
      }};
  VariantPlanner planner() const { return VariantPlanner(subject); }
};

TEST(Tree, StopsAtTheLeastDrasticChangeThatFits) {
  const Subject one;
  const auto chosen = [&](std::int64_t gigabytes) {
    const Decision decision = walk_tree(one.planner(), {.device = gigabytes * kGB});
    EXPECT_TRUE(decision.fits);
    EXPECT_EQ(decision.words.size(), decision.walked.size());
    return decision.chosen().variant;
  };
  EXPECT_EQ(chosen(128), (Variant{2, false, false}));
  EXPECT_EQ(chosen(127), (Variant{2, true, false}));
  EXPECT_EQ(chosen(17), (Variant{2, true, false})) << "16 GB, and half a GB that passes";
  EXPECT_EQ(chosen(10), (Variant{3, true, true}));
}

TEST(Tree, SaysWhatItTries) {
  const Subject one;
  const Decision decision = walk_tree(one.planner(), {.device = 20LL << 30, .host = 200LL << 30});
  ASSERT_EQ(decision.words.size(), 2U);
  EXPECT_EQ(decision.words[0], "stage 2: 119.21 GiB of 20.00 GiB on the device, does not fit");
  EXPECT_EQ(decision.words[1],
            "  + offload_optimizer: 15.37 GiB of 20.00 GiB on the device, 104.50 GiB of 200.00 "
            "GiB on the host, fits: stop");
}

TEST(Tree, WhereNothingFitsItSaysSo) {
  const Subject one;
  const Decision decision = walk_tree(one.planner(), {.device = kGB / 4});
  EXPECT_FALSE(decision.fits);
  EXPECT_EQ(decision.walked.size(), kTree.size());
  EXPECT_EQ(decision.chosen().variant, kTree.back());
  EXPECT_FALSE(walk_tree(one.planner(), {.device = 17 * kGB, .host = 50 * kGB}).fits)
      << "the host has limits, too";
}

TEST(Tree, OnlyWhatIsOpenIsChosen) {
  const Subject one;
  const auto chosen = [&](const OpenQuestions& open) {
    return walk_tree(one.planner(), {.device = 20 * kGB}, open).chosen().variant;
  };
  EXPECT_EQ(chosen({.stage = false, .given = {1, false, false}}), (Variant{1, true, false}));
  EXPECT_EQ(chosen({.stage = false, .given = {3, false, false}}), (Variant{3, true, false}));
  EXPECT_EQ(chosen({.offload = false, .given = {0, true, false}}), (Variant{2, true, false}));
  const Decision given = walk_tree(one.planner(), {.device = 20 * kGB},
                                   {.stage = false, .offload = false, .given = {1, false, false}});
  EXPECT_FALSE(given.fits);
  EXPECT_EQ(given.chosen().variant, (Variant{1, false, false}));
}

TEST(Tree, OneLimitForBothIsForTheirSum) {
  const Subject one;
  EXPECT_TRUE(walk_tree(one.planner(), {.both = 130 * kGB}).fits);
  EXPECT_FALSE(walk_tree(one.planner(), {.both = 60 * kGB}).fits);
}

TEST(Variants, ADeviceIsFilled) {
  const Subject one;
  const Variant offloaded{2, true, false};
  const auto filled = one.planner().filled(offloaded, {.device = 64 * kGB});
  ASSERT_TRUE(filled.has_value());
  EXPECT_GT(filled->units_on_device, 10U);
  EXPECT_LT(filled->units_on_device, 20U);
  EXPECT_LE(filled->memory.peak(Tier::device), 64 * kGB);
  EXPECT_GT(filled->memory.peak(Tier::device), 60 * kGB) << "one unit more would not fit";
  EXPECT_FALSE(one.planner().filled(offloaded, {.device = 10 * kGB}).has_value());
}

TEST(Variants, TheLargestModelFitsAndOneALittleLargerDoesNot) {
  const Subject one;
  const MemoryLimits limits{.device = 32 * kGB};
  for (const Variant& variant : kVariants) {
    const auto largest = one.planner().largest_model(variant, limits);
    ASSERT_NE(largest, nullptr);
    const auto fits = [&](std::int64_t size) {
      Subject other;
      other.model = counted_model(size, {.units = 32});
      other.subject.model = other.model.get();
      return other.planner().plan(variant).fits(limits);
    };
    EXPECT_TRUE(fits(largest->size())) << name_of(variant);
    EXPECT_FALSE(fits(largest->size() + largest->size() / 5000)) << name_of(variant);
  }
}

TEST(LargestThat, FindsTheLastThatHolds) {
  for (std::int64_t answer = 0; answer <= 70; ++answer) {
    int asked = 0;
    const auto found = largest_that(0, 64, [&](std::int64_t each) {
      ++asked;
      return each <= answer;
    });
    EXPECT_EQ(found, std::min<std::int64_t>(answer, 64));
    EXPECT_LE(asked, 16);
  }
  EXPECT_EQ(largest_that(3, 9, [](std::int64_t) { return false; }), std::nullopt);
  EXPECT_EQ(largest_that(3, 2, [](std::int64_t) { return true; }), std::nullopt);
}

TEST(Tree, WhatIsSaidOfParametersHoldsWhereTheyAreSharded) {
  const Subject one;
  const auto branches = [&](const OpenQuestions& open) {
    std::vector<Variant> walked;
    for (const PlannedVariant& each : walk_tree(one.planner(), {.device = 1}, open).walked) {
      walked.push_back(each.variant);
    }
    return walked;
  };
  using Branches = std::vector<Variant>;
  const OpenQuestions both_on_host{.offload = false, .parameters = false, .given = {0, true, true}};
  EXPECT_EQ(branches(both_on_host), (Branches{{2, true, false}, {3, true, true}}));
  const OpenQuestions parameters_alone{
      .stage = false, .parameters = false, .given = {3, false, true}};
  EXPECT_EQ(branches(parameters_alone), (Branches{{3, false, true}, {3, true, true}}));
  const OpenQuestions on_device{.parameters = false};
  EXPECT_EQ(branches(on_device),
            (Branches{{2, false, false}, {2, true, false}, {3, false, false}, {3, true, false}}));
}

TEST(Variants, WhatEachLimitLeavesIsKnown) {
  const Subject one;
  const PlannedVariant planned = one.planner().plan({2, true, false});
  const std::int64_t device = planned.needed(Tier::device), host = planned.needed(Tier::host);
  EXPECT_EQ(planned.left(Tier::device, {}), std::nullopt);
  const MemoryLimits limits{.device = device + 7, .host = host - 5};
  EXPECT_EQ(planned.left(Tier::device, limits), 7);
  EXPECT_EQ(planned.left(Tier::host, limits), -5);
  EXPECT_FALSE(planned.fits(limits));
  EXPECT_EQ(planned.left_of_both(limits), std::nullopt);
  EXPECT_EQ(planned.left_of_both({.both = device + host + 3}), 3);
  EXPECT_TRUE(planned.fits({.device = device, .host = host}));
}

TEST(LargestAbout, ComesNearTheLastThatHolds) {
  for (const std::int64_t start : {1, 100, 7'000'000, 900'000'000}) {
    for (const std::int64_t answer : {1LL, 3LL, 123'456LL, 7'000'000LL, 899'999'999LL}) {
      int asked = 0;
      const auto found = largest_about(start, 1'000'000'000, 1e-4, [&](std::int64_t each) {
        ++asked;
        return each <= answer;
      });
      ASSERT_TRUE(found.has_value());
      EXPECT_LE(*found, answer);
      EXPECT_GE(static_cast<double>(*found), 0.9998 * static_cast<double>(answer));
      EXPECT_LE(asked, 50);
    }
  }
  EXPECT_EQ(largest_about(50, 100, 1e-4, [](std::int64_t) { return false; }), std::nullopt);
  EXPECT_EQ(largest_about(50, 120, 1e-4, [](std::int64_t) { return true; }), 120);
}

TEST(Rates, DevicesAreFoundByWholeWords) {
  const auto named = [](const char* text) {
    const auto found = find_device(text);
    return found ? std::string(found->name) : "none";
  };
  EXPECT_EQ(named("A100-40GB"), "A100-40GB");
  EXPECT_EQ(named("GeForce RTX 4090"), "4090");
  EXPECT_EQ(named("rtx4090"), "4090");
  EXPECT_EQ(named("NVIDIA H100 80GB HBM3"), "H100");
  EXPECT_EQ(named("NVIDIA H100 PCIe"), "H100-PCIe");
  EXPECT_EQ(named("NVIDIA L40"), "L40");
  EXPECT_EQ(named("NVIDIA L40S"), "L40S");
  for (const char* other : {"RTX A1000", "NVIDIA A1000 40GB", "L400", "T400", "H1000", "potato", "",
                            "NVIDIA GeForce RTX 4090 Laptop GPU"}) {
    EXPECT_EQ(named(other), "none") << other;
  }
}

TEST(Rates, ASizeInTheNameIsTheDevices) {
  const auto gib = [](const char* text) { return find_device(text)->memory_bytes >> 30; };
  EXPECT_EQ(gib("NVIDIA A100-SXM4-40GB"), 40);
  EXPECT_EQ(gib("NVIDIA A100-SXM4-80GB"), 80);
  EXPECT_EQ(gib("A100-SXM-64GB"), 64);
  EXPECT_EQ(gib("Tesla V100-SXM2-16GB"), 16);
  EXPECT_EQ(gib("Tesla V100-SXM2-32GB"), 32);
  EXPECT_EQ(gib("NVIDIA GH200 480GB"), 95) << "that is its host's";
}

TEST(Rates, ASizeAloneHasTheRatesOfTheNearest) {
  EXPECT_EQ(nearest_device(80LL << 30).name, "A100");
  EXPECT_EQ(nearest_device(1LL << 30).name, "T4");
  EXPECT_EQ(nearest_device(1LL << 40).name, "B200");
}

}  // namespace
}  // namespace zeroshard
