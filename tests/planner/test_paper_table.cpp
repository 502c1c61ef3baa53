// The ZeRO paper's table and the resident bytes of reference 2.10, from the layout's own
// arithmetic.
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/planner/footprint.h"
#include "zeroshard/planner/largest.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kBillion = 1'000'000'000;

FootprintOptions sixteen_bit(int stage) {
  FootprintOptions options;
  options.zero.stage = stage;
  options.precision.fp16.enabled = true;
  return options;
}

Footprint plan(std::int64_t parameters, int ranks, const FootprintOptions& options) {
  return footprint(equal_units(parameters, 32, options.precision.model(), ranks), options);
}

TEST(PaperTable, SevenAndAHalfBillionOn64RanksReadsAsPrinted) {
  const std::vector<std::string> printed{"120 GB", "31.4 GB", "16.6 GB", "1.88 GB"};
  for (int stage = 0; stage < 4; ++stage) {
    const Footprint need = plan(7'500'000'000, 64, sixteen_bit(stage));
    EXPECT_EQ(human_bytes_decimal(need.states(Tier::device)), printed[stage]) << "stage " << stage;
    EXPECT_EQ(need.total(Tier::host), 0);
  }
}

// (2 + 2 + K) Psi and its splits, K = 12, as the paper writes them.
double paper_bytes(int stage, double psi, double ranks) {
  switch (stage) {
    case 0: return 16 * psi;
    case 1: return 4 * psi + 12 * psi / ranks;
    case 2: return 2 * psi + 14 * psi / ranks;
    default: return 16 * psi / ranks;
  }
}

TEST(PaperTable, FormulasHoldForEverySizeAndDegree) {
  for (const std::int64_t psi : {75 * kBillion / 10, 128 * kBillion, 1000 * kBillion}) {
    for (const int ranks : {1, 4, 16, 64, 256, 1024}) {
      for (int stage = 0; stage < 4; ++stage) {
        const double expected = paper_bytes(stage, static_cast<double>(psi), ranks);
        const double got =
            static_cast<double>(plan(psi, ranks, sixteen_bit(stage)).states(Tier::device));
        // Padding: at most 64 elements per rank and unit, 16 bytes each.
        EXPECT_NEAR(got, expected, 32.0 * 64 * 16 * ranks) << psi << " " << ranks << " " << stage;
      }
    }
  }
}

// As the paper's table has them, to the digits that it gives.
TEST(PaperTable, EverySizeAndDegreeReadsAsPrinted) {
  struct Row {
    int ranks;
    std::array<std::array<const char*, 3>, 3> gigabytes;  // by model, by stage 1 to 3
  };
  const std::vector<Row> rows{
      {1, {{{"120", "120", "120"}, {"2048", "2048", "2048"}, {"16000", "16000", "16000"}}}},
      {4, {{{"52.5", "41.3", "30"}, {"896", "704", "512"}, {"7000", "5500", "4000"}}}},
      {16, {{{"35.6", "21.6", "7.5"}, {"608", "368", "128"}, {"4750", "2875", "1000"}}}},
      {64, {{{"31.4", "16.6", "1.88"}, {"536", "284", "32"}, {"4188", "2219", "250"}}}},
      {256, {{{"30.4", "15.4", "0.47"}, {"518", "263", "8"}, {"4047", "2055", "62.5"}}}},
      {1024, {{{"30.1", "15.1", "0.12"}, {"514", "258", "2"}, {"4012", "2014", "15.6"}}}},
  };
  const std::array<std::int64_t, 3> models{7'500'000'000, 128 * kBillion, 1000 * kBillion};
  for (const Row& row : rows) {
    for (std::size_t model = 0; model < models.size(); ++model) {
      for (int stage = 1; stage < 4; ++stage) {
        const std::string printed = row.gigabytes[model][static_cast<std::size_t>(stage - 1)];
        const std::size_t point = printed.find('.');
        const double digits =
            point == std::string::npos ? 0 : static_cast<double>(printed.size() - point - 1);
        const double gigabytes =
            static_cast<double>(
                plan(models[model], row.ranks, sixteen_bit(stage)).states(Tier::device)) /
            1e9;
        // Half a unit of the last digit, and what padding adds.
        EXPECT_NEAR(gigabytes, std::stod(printed), 0.5 * std::pow(10, -digits) + 0.0001 * gigabytes)
            << row.ranks << " ranks, model " << model << ", stage " << stage;
      }
    }
  }
}

// States alone in 32 GB on 64 ranks: 2, 7.6, 14.4 and 128 billion.
TEST(PaperTable, TheLargestModelOfEachStage) {
  const std::array<double, 4> billions{2, 7.6, 14.4, 128};
  for (int stage = 0; stage < 4; ++stage) {
    const auto largest = largest_that(1, 1000 * kBillion, [&](std::int64_t parameters) {
      return plan(parameters, 64, sixteen_bit(stage)).states(Tier::device) <= 32 * kBillion;
    });
    ASSERT_TRUE(largest.has_value());
    EXPECT_NEAR(static_cast<double>(*largest) / 1e9, billions[static_cast<std::size_t>(stage)],
                0.05)
        << "stage " << stage;
  }
}

// ZeRO-Offload: 13 billion parameters on one device of 32 GB, where 1.4 billion were the most.
TEST(PaperTable, ThirteenBillionFitIntoThirtyTwoGigabytesWithOffload) {
  const auto fits = [](std::int64_t parameters, Tier optimizer) {
    FootprintOptions options = sixteen_bit(2);
    options.offload.optimizer = optimizer;
    return plan(parameters, 1, options).total(Tier::device) <= 32 * kBillion;
  };
  EXPECT_TRUE(fits(13 * kBillion, Tier::host));
  EXPECT_FALSE(fits(13 * kBillion, Tier::device));
  EXPECT_TRUE(fits(14 * kBillion / 10, Tier::device));
  EXPECT_FALSE(fits(21 * kBillion / 10, Tier::device));
  // Two bytes for the parameter, and one of 32 units' gradients on its way.
  EXPECT_TRUE(fits(155 * kBillion / 10, Tier::host));
  EXPECT_FALSE(fits(16 * kBillion, Tier::host));
}

// Reference 2.10, P trainable parameters on W ranks; DeepSpeed's fp32 gradient slice at the step
// does not exist here, because unscaling and clipping happen inside the update.
struct ReferenceRow {
  const char* name;
  int stage;
  Tier optimizer;
  Tier parameters;
  std::int64_t micro_steps;
  // In bytes: a * P + b * P / W.
  double device_parameters[2], device_gradients[2], device_states[2], host[2];
};

TEST(PaperTable, ReferenceResidentBytes) {
  const std::vector<ReferenceRow> rows{
      {"1", 1, Tier::device, Tier::device, 1, {2, 0}, {2, 0}, {0, 12}, {0, 0}},
      {"2", 2, Tier::device, Tier::device, 1, {2, 0}, {0, 2}, {0, 12}, {0, 0}},
      {"2 + cpu", 2, Tier::host, Tier::device, 1, {2, 0}, {0, 0}, {0, 0}, {0, 12 + 2}},
      {"2 + cpu, fp32 G", 2, Tier::host, Tier::device, 4, {2, 0}, {0, 0}, {0, 0}, {0, 16}},
      {"3", 3, Tier::device, Tier::device, 1, {0, 2}, {0, 2}, {0, 12}, {0, 0}},
      {"3 + cpu optimizer, fp32 G",
       3,
       Tier::host,
       Tier::device,
       4,
       {0, 2},
       {0, 0},
       {0, 0},
       {0, 16}},
      {"3 + cpu both, fp32 G", 3, Tier::host, Tier::host, 4, {0, 0}, {0, 0}, {0, 0}, {0, 18}},
  };
  const std::int64_t parameters = 1'024'000'000;
  const int ranks = 8;
  for (const ReferenceRow& row : rows) {
    SCOPED_TRACE(row.name);
    FootprintOptions options = sixteen_bit(row.stage);
    options.offload.optimizer = row.optimizer;
    options.offload.parameters = row.parameters;
    options.micro_steps = row.micro_steps;
    const Footprint need = plan(parameters, ranks, options);
    const auto bytes = [&](const double(&factor)[2]) {
      return factor[0] * parameters + factor[1] * parameters / ranks;
    };
    const double slack = 32 * 64 * 18;
    const auto device = [&](Category c) { return double(need.bytes(c, Tier::device)); };
    EXPECT_NEAR(device(Category::parameters), bytes(row.device_parameters), slack);
    EXPECT_NEAR(device(Category::gradients), bytes(row.device_gradients), slack);
    EXPECT_NEAR(device(Category::master) + device(Category::moments), bytes(row.device_states),
                slack);
    EXPECT_NEAR(double(need.states(Tier::host)), bytes(row.host), slack);
  }
}

}  // namespace
}  // namespace zeroshard
