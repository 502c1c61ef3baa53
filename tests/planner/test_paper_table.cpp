// The ZeRO paper's table and the resident bytes of reference 2.10, from the layout's own
// arithmetic.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/planner/footprint.h"

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
