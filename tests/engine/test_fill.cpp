// Weights by name and element: the same model whatever the number of ranks and the stage, and no
// rank ever holds more of it than its shard.
#include <mutex>

#include <gtest/gtest.h>

#include "zeroshard/base/counter_random.h"
#include "zeroshard/comm/thread.h"
#include "zeroshard/engine/empty_parameter.h"
#include "zeroshard/engine/engine.h"
#include "zeroshard/engine/unit.h"

namespace zeroshard::test {
namespace {

constexpr std::int64_t kWidth = 128;  // padding is small against it

struct LayerImpl : torch::nn::Module {
  explicit LayerImpl(std::int64_t width) {
    weight = register_parameter("weight", empty_parameter({width, width}));
    bias = register_parameter("bias", empty_parameter({width}));
  }
  torch::Tensor forward(torch::Tensor x) { return torch::addmm(bias, x, weight); }

  torch::Tensor weight, bias;
};

struct StackImpl : torch::nn::Module {
  explicit StackImpl(std::int64_t width) {
    for (int i = 0; i < 4; ++i) {
      layers.push_back(register_module("layer" + std::to_string(i), Unit<LayerImpl>(width)));
    }
    scale = register_parameter("scale", empty_parameter({width}));
  }

  std::vector<Unit<LayerImpl>> layers;
  torch::Tensor scale;
};
TORCH_MODULE(Stack);

void fill(const std::string& name, const Span& elements, float* values) {
  const CounterRandom random(name, 3);
  for (std::int64_t i = 0; i < elements.size(); ++i) {
    values[i] = static_cast<float>(random.normal(static_cast<std::uint64_t>(elements.begin() + i)));
  }
}

struct Filled {
  std::vector<float> weights;
  std::int64_t peak_bytes = 0;
};

Filled filled_model(int stage, int ranks) {
  Filled result;
  std::mutex mutex;
  run_ranks(ranks, {}, [&](Communicator& comm) {
    EngineOptions options;
    options.zero.stage = stage;
    options.zero.persistence_numel = 0;
    options.zero.prefetch_numel = 0;
    options.threads = 1;
    Stack model = nullptr;
    {
      const Init init(options, comm);
      model = Stack(kWidth);
    }
    Engine engine(model, options, comm);
    engine.fill_parameters(fill);
    const std::int64_t peak = engine.core().memory().peak(Category::parameters, Tier::device);
    std::vector<float> weights;
    engine.visit_parameters([&](const std::string&, const at::Tensor& full) {
      const at::Tensor flat = full.detach().reshape({-1}).contiguous();
      weights.insert(weights.end(), flat.const_data_ptr<float>(),
                     flat.const_data_ptr<float>() + flat.numel());
    });
    const std::lock_guard lock(mutex);
    if (comm.rank() == 0) result = {weights, peak};
  });
  return result;
}

TEST(FillParameters, AnyStageAndNumberOfRanksStartsTheSame) {
  std::vector<float> expected(4 * (kWidth * kWidth + kWidth) + kWidth);
  fill("scale", Span(0, kWidth), expected.data());  // the root unit comes first
  float* next = expected.data() + kWidth;
  for (int i = 0; i < 4; ++i) {
    const std::string layer = "layer" + std::to_string(i);
    fill(layer + ".weight", Span(0, kWidth * kWidth), next);
    fill(layer + ".bias", Span(0, kWidth), next + kWidth * kWidth);
    next += kWidth * kWidth + kWidth;
  }
  for (const int ranks : {1, 2, 3}) {
    for (const int stage : {0, 1, 2, 3}) {
      EXPECT_EQ(filled_model(stage, ranks).weights, expected) << stage << " on " << ranks;
    }
  }
}

TEST(FillParameters, OnlyShardsAreAllocated) {
  const std::int64_t whole = filled_model(3, 1).peak_bytes;
  EXPECT_LT(filled_model(3, 4).peak_bytes, whole * 3 / 10);  // a quarter, the root and padding
}

}  // namespace
}  // namespace zeroshard::test
