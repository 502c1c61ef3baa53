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

TEST(Variants, TheLargestModelFitsAndOneMoreDoesNot) {
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
    EXPECT_FALSE(fits(largest->size() + 1)) << name_of(variant);
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

TEST(Rates, DevicesAreFoundByTheLongestName) {
  EXPECT_EQ(find_device("NVIDIA A100-SXM4-40GB")->name, "A100");  // its driver says more
  EXPECT_EQ(find_device("A100-40GB")->name, "A100-40GB");
  EXPECT_EQ(find_device("nvidia gh200 480gb")->name, "GH200");
  EXPECT_EQ(find_device("GeForce RTX 4090")->name, "4090");
  EXPECT_EQ(find_device("potato"), nullptr);
  EXPECT_EQ(find_device(""), nullptr);
}

}  // namespace
}  // namespace zeroshard
