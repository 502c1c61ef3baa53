// The sizes that a run chooses, against all others: by the model of scale they are nearly the best.
#include <algorithm>
#include <memory>

#include <gtest/gtest.h>

#include "zeroshard/layout/reduction_plan.h"
#include "zeroshard/planner/chosen_sizes.h"
#include "zeroshard/planner/planned_model.h"
#include "zeroshard/planner/step_time.h"

namespace zeroshard {
namespace {

// A transformer on GPUs of hosts of eight, one sequence of 4096 tokens for each.
struct Cluster {
  std::int64_t parameters;
  int layers;
  int ranks;
  int stage = 3;

  SizeFacts facts() const {
    return {.parameters = parameters,
            .topology = {.ranks = ranks, .ranks_per_node = 8},
            .accelerator = true,
            .overlaps = true,
            .travels = DType::bf16};
  }
  ZeroOptions chosen() const {
    ZeroOptions zero{.stage = stage, .overlap_comm = true};
    zero.reduce_bucket_numel = chosen_bucket_numel(facts());
    zero.prefetch_numel = chosen_prefetch_numel(facts(), zero.reduce_bucket_numel);
    zero.max_live_numel = *chosen_live_numel(facts());
    return zero;
  }
  double seconds(const ZeroOptions& zero) const {
    const auto model = counted_model(
        parameters, {.units = layers, .sequence = 4096, .checkpoint_activations = true});
    FootprintOptions options{.zero = zero, .accelerator = true};
    options.precision.bf16.enabled = true;
    const ModelLayout layout = model->layout(DType::bf16, ranks);
    const auto activations = model->activations({.micro_batch = 1, .sequence = 4096});
    const Rates rates = assumed_rates(*find_device("H100"));
    return step_time({.model = layout,
                      .options = options,
                      .activations = *activations,
                      .rates = rates,
                      .ranks_per_node = 8})
        .step;
  }
};

// Not quite where a small model meets a large ring: a bucket is a part of the model at most.
TEST(ChosenSizes, AreNearlyTheBest) {
  for (const int ranks : {2, 8, 64, 512}) {
    for (const auto& [parameters, layers] : {std::pair{400'000'000L, 24},
                                             {1'300'000'000L, 24},
                                             {7'000'000'000L, 32},
                                             {70'000'000'000L, 80}}) {
      for (const int stage : {2, 3}) {
        const Cluster cluster{parameters, layers, ranks, stage};
        const ZeroOptions chosen = cluster.chosen();
        double best = cluster.seconds(chosen);
        for (const std::int64_t bucket : {0L, 20'000'000L, 100'000'000L, 500'000'000L}) {
          for (const std::int64_t prefetch : {1L, 50'000'000L, 500'000'000L}) {
            ZeroOptions other = chosen;
            other.reduce_bucket_numel = bucket;
            other.prefetch_numel = prefetch;
            best = std::min(best, cluster.seconds(other));
          }
        }
        EXPECT_LE(cluster.seconds(chosen), 1.08 * best)
            << parameters << " on " << ranks << ", stage " << stage;
      }
    }
  }
}

// n w / bandwidth = alpha P / n, where memory sets no bound: 1.3 B on one host.
TEST(ChosenSizes, TheLastBucketTravelsAsLongAsAllLatencies) {
  const Cluster cluster{1'300'000'000, 24, 8};
  const double bucket = static_cast<double>(cluster.chosen().reduce_bucket_numel);
  const Rates rates = assumed_rates(*find_device("H100"));
  const Topology topology = cluster.facts().topology;
  const double travels = 2 * bucket / bytes_per_second(topology, rates, Route::ring);
  const double latencies = latency_seconds(topology, rates, Route::ring) * 1.3e9 / bucket;
  EXPECT_NEAR(travels, latencies, 1e-6 * latencies);
}

TEST(ChosenSizes, GrowWithTheRingAndStayPartsOfTheModel) {
  std::int64_t before = 0;
  for (const int ranks : {2, 8, 64, 512, 4096}) {
    const std::int64_t bucket = Cluster{7'000'000'000, 32, ranks}.chosen().reduce_bucket_numel;
    EXPECT_GE(bucket, before);
    before = bucket;
  }
  EXPECT_EQ(before, 250'000'000);
  EXPECT_EQ((Cluster{100'000'000, 12, 4096}.chosen().reduce_bucket_numel), 100'000'000 / 4);
  EXPECT_EQ((Cluster{100'000, 12, 8}.chosen().reduce_bucket_numel), 1'000'000);
}

// In backward a gather may wait for a bucket's reduction.
TEST(ChosenSizes, AsMuchIsAheadAsIsReducedAtOnce) {
  for (const int ranks : {2, 8, 64, 512}) {
    const ZeroOptions zero = Cluster{7'000'000'000, 32, ranks}.chosen();
    EXPECT_GE(zero.prefetch_numel, zero.reduce_bucket_numel) << ranks;
  }
  const SizeFacts facts = Cluster{7'000'000'000, 32, 64}.facts();
  EXPECT_EQ(chosen_prefetch_numel(facts, 0), 50'000'000);
  EXPECT_EQ(chosen_prefetch_numel(facts, 1L << 40), 250'000'000) << "not all of it";
}

// The usual limit of what is gathered at a time is one billion: less than two blocks of 70 B.
TEST(ChosenSizes, LargeUnitsAreAheadToo) {
  const Cluster cluster{70'000'000'000, 80, 64};
  ZeroOptions limited = cluster.chosen();
  limited.max_live_numel = ZeroOptions{}.max_live_numel;
  EXPECT_GT(cluster.seconds(limited), 1.3 * cluster.seconds(cluster.chosen()));
}

TEST(ChosenSizes, WithoutOverlapOrNetworkAnEighthOfTheModel) {
  SizeFacts facts{.parameters = 40'000'000, .topology = {.ranks = 2, .ranks_per_node = 2}};
  EXPECT_EQ(chosen_bucket_numel(facts), 5'000'000);
  EXPECT_EQ(chosen_prefetch_numel(facts, 5'000'000), 0);
  EXPECT_EQ(chosen_live_numel(facts), std::nullopt);
  facts.overlaps = facts.accelerator = true;
  facts.topology = {};
  EXPECT_EQ(chosen_bucket_numel(facts), 5'000'000) << "of one rank";
  EXPECT_EQ(chosen_live_numel(facts), std::nullopt);
}

// The shapes by which the eighth was tuned (bench/train_cases.py): block by block, embedding and
// head apart. On cores of its own communication has smaller buckets, and they hold the same units.
TEST(ChosenSizes, OnCpusTheSameUnitsAreReducedTogether) {
  struct Shape {
    std::int64_t parameters, table, block, layers;
  };
  for (const Shape& shape :
       {Shape{8'966'144, 2'129'920, 789'760, 6}, {42'128'384, 8'519'680, 3'152'384, 8}}) {
    std::vector<std::int64_t> units{shape.table};
    units.insert(units.end(), static_cast<std::size_t>(shape.layers), shape.block);
    units.push_back(shape.table);
    SizeFacts facts{.parameters = shape.parameters, .topology = {.ranks = 2, .ranks_per_node = 2}};
    const auto buckets = [&] {
      return plan_reductions(units, {.bucket_numel = chosen_bucket_numel(facts)}).buckets;
    };
    const auto in_turns = buckets();
    facts.overlaps = true;
    EXPECT_EQ(buckets(), in_turns);
    EXPECT_EQ(chosen_prefetch_numel(facts, chosen_bucket_numel(facts)), shape.parameters / 8);
  }
}

}  // namespace
}  // namespace zeroshard
