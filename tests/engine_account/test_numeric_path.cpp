// The numeric path of DESIGN section 5: the settings that touch gradients on their way give the
// same bits in every stage, and a result within a bound that follows from the roundings.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/engine_account/account_support.h"
#include "tests/engine_account/linear_model.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard::test {
namespace {

struct NumericCase {
  const char* name;
  DType model = DType::fp32;
  std::optional<DType> accumulates = {};
  std::optional<DType> travels = {};
  bool prescale = false;
  double predivide = 1.0;
  double clip = 0.0;
};

std::vector<NumericCase> numeric_cases() {
  return {
      {"fp32"},
      {"fp32, clipped", DType::fp32, {}, {}, false, 1.0, 0.05},
      {"fp32, clip not reached", DType::fp32, {}, {}, false, 1.0, 1e4},
      {"fp32, prescaled", DType::fp32, {}, {}, true},
      {"fp32, predivided", DType::fp32, {}, {}, false, 3.0},
      {"fp32 travels as bf16", DType::fp32, {}, DType::bf16},
      {"bf16", DType::bf16},
      {"bf16 travels as fp32", DType::bf16, {}, DType::fp32},
      {"bf16 accumulates in fp32", DType::bf16, DType::fp32},
      {"bf16 accumulates in fp32, clipped", DType::bf16, DType::fp32, {}, false, 1.0, 0.05},
      {"bf16 in fp32 all the way", DType::bf16, DType::fp32, DType::fp32},
      {"bf16 travels as fp32, predivided", DType::bf16, {}, DType::fp32, false, 3.0},
      {"bf16 accumulates in fp32, prescaled", DType::bf16, DType::fp32, {}, true, 1.0, 0.05},
      {"fp16", DType::fp16, {}, {}, false, 1.0, 0.05},
      {"fp16 travels as bf16", DType::fp16, {}, DType::bf16},
      {"fp16 accumulates in fp32, prescaled", DType::fp16, DType::fp32, {}, true},
  };
}

void set(PrecisionOptions& precision, const NumericCase& to) {
  precision.bf16.enabled = to.model == DType::bf16;
  precision.fp16.enabled = to.model == DType::fp16;
  precision.fp16.loss_scale = 128.0;
  precision.grad_accum_dtype = to.accumulates;
  precision.communication_data_type = to.travels;
  precision.prescale_gradients = to.prescale;
  precision.gradient_predivide_factor = to.predivide;
  precision.gradient_clipping = to.clip;
}

Trace trained(int stage, int ranks, std::int64_t micro_steps, const NumericCase& with) {
  RunPlan plan = small_plan(stage, ranks, DType::fp32, micro_steps);
  plan.steps = 2;
  set(plan.options.precision, with);
  return train(plan);
}

class NumericPath : public testing::TestWithParam<int> {};

TEST_P(NumericPath, IsTheSameBitsInAllStages) {
  const int ranks = GetParam();
  for (const NumericCase& each : numeric_cases()) {
    SCOPED_TRACE(each.name);
    const Trace expected = trained(0, ranks, 1, each);
    for (const int stage : {1, 2, 3}) {
      EXPECT_EQ(difference(expected, trained(stage, ranks, 1, each)), "") << "stage " << stage;
    }
    EXPECT_EQ(difference(trained(0, ranks, 2, each), trained(1, ranks, 2, each)), "");
    EXPECT_EQ(difference(trained(2, ranks, 2, each), trained(3, ranks, 2, each)), "");
  }
}

double rounding(DType dtype) {
  return dtype == DType::fp32 ? 0x1p-24 : dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
}

// How far G may be from the mean, relative to the mean of the absolute values: each rounding on the
// way moves a number by no more than its unit, sums no more than that for each addition.
double relative_bound(const PrecisionOptions& precision, int ranks, int micro_steps) {
  double growth = 1.0;
  const auto times = [&](DType dtype, int roundings) {
    growth *= std::pow(1.0 + rounding(dtype), roundings);
  };
  times(precision.model(), 1);                   // autograd's result
  times(precision.accumulation(), micro_steps);  // added up
  times(precision.communication(), 2);           // packed; stored as G
  times(DType::fp32, ranks + micro_steps + 10);  // sums over ranks, G's sums, factors, update
  return growth - 1.0;
}

struct Reference {
  std::vector<std::vector<double>> mean;
  std::vector<std::vector<double>> bound;
};

double norm_of(const std::vector<std::vector<double>>& all) {
  double sum = 0.0;
  for (const auto& values : all) {
    for (const double value : values) sum += value * value;
  }
  return std::sqrt(sum);
}

// In double: the mean over ranks of the sum over micro-steps of numbers / a, clipped.
Reference reference(const PrecisionOptions& precision, int ranks, int micro_steps) {
  Reference result;
  const double relative = relative_bound(precision, ranks, micro_steps);
  for (std::size_t p = 0; p < kLinearParameters; ++p) {
    const auto count = static_cast<std::size_t>(linear_numel(p));
    std::vector<double> mean(count), absolute(count);
    for (int rank = 0; rank < ranks; ++rank) {
      for (int micro = 0; micro < micro_steps; ++micro) {
        const torch::Tensor numbers = linear_numbers(rank, micro)[p];
        for (std::size_t i = 0; i < count; ++i) {
          const double value = numbers.data_ptr<float>()[i] / (1.0 * ranks * micro_steps);
          mean[i] += value;
          absolute[i] += std::abs(value) * relative;
        }
      }
    }
    result.mean.push_back(mean);
    result.bound.push_back(absolute);
  }
  const double clip = precision.gradient_clipping;
  const double norm = norm_of(result.mean);
  const double divisor = clip > 0.0 ? std::max(1.0, (norm + 1e-6) / clip) : 1.0;
  // Each number is moved by the norm's error as well.
  const double of_norm = divisor > 1.0 ? norm_of(result.bound) / norm : 0.0;
  for (std::size_t p = 0; p < kLinearParameters; ++p) {
    for (std::size_t i = 0; i < result.mean[p].size(); ++i) {
      result.bound[p][i] = (result.bound[p][i] * (1 + of_norm) +
                            std::abs(result.mean[p][i]) * of_norm * (1 + of_norm)) /
                           divisor;
      result.mean[p][i] /= divisor;
    }
  }
  return result;
}

// From zero, with a learning rate of 1, the master is minus the gradient.
void check_against_double(int stage, int ranks, int micro_steps, const NumericCase& with) {
  EngineOptions options = small_plan(stage, ranks, DType::fp32, micro_steps).options;
  set(options.precision, with);
  options.parameter_groups = {SgdOptions{.lr = 1.0}};
  const Reference expected = reference(options.precision, ranks, micro_steps);
  run_ranks(ranks, {.timeout = std::chrono::seconds(30)}, [&](Communicator& comm) {
    LinearModel model;
    Engine engine(model, options, comm);
    for (int micro = 0; micro < micro_steps; ++micro) {
      engine.backward(model->loss(linear_numbers(comm.rank(), micro)));
      engine.step();
    }
    const auto masters = owned_masters(engine.core());
    for (std::size_t p = 0; p < kLinearParameters; ++p) {
      for (std::size_t i = 0; i < masters[p].size(); ++i) {
        if (std::isnan(masters[p][i])) continue;
        ASSERT_NEAR(-masters[p][i], expected.mean[p][i], expected.bound[p][i])
            << "parameter " << p << ", element " << i;
      }
    }
  });
}

TEST_P(NumericPath, IsWithinTheRoundingsOfADoubleReference) {
  for (const NumericCase& each : numeric_cases()) {
    for (int stage = 0; stage < 4; ++stage) {
      for (const int micro_steps : {1, 3}) {
        SCOPED_TRACE(testing::Message()
                     << each.name << ", stage " << stage << ", a = " << micro_steps);
        check_against_double(stage, GetParam(), micro_steps, each);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, NumericPath, testing::Values(1, 2, 3));

}  // namespace
}  // namespace zeroshard::test
