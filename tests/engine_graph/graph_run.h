// Trains models of a test's own on ranks that are threads, and by hand without the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/test_model.h"
#include "zeroshard/engine/engine.h"

namespace zeroshard::test {

// What a test's model answers: the loss of a rank in a step. Undefined: it has none.
struct GraphNet : torch::nn::Module {
  virtual torch::Tensor loss(int step, int rank) = 0;
};

struct GraphRun {
  std::function<std::shared_ptr<GraphNet>()> make;
  int ranks = 2;
  int steps = 3;
  OptimizerOptions optimizer = SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1};
  DType dtype = DType::fp32;
  // Instead of loss, backward and step.
  std::function<torch::Tensor(GraphNet&, Engine&, int step, int rank)> train_step = {};
};

using Weights = std::map<std::string, std::vector<float>>;

struct GraphTrace {
  std::vector<double> losses;  // by step and rank
  std::vector<double> norms;
  Weights weights;
};

// Small buckets, no persistent units, no clipping.
EngineOptions graph_options(int stage);
GraphTrace train_graph(const GraphRun& run, const EngineOptions& options);
GraphTrace train_graph(const GraphRun& run, int stage);
// Plain libtorch on one thread, gradients averaged by hand, torch::optim::SGD.
GraphTrace train_plain(const GraphRun& run);

// Empty where losses and weights (and norms, where both have them) differ by no more.
std::string difference(const GraphTrace& a, const GraphTrace& b, double bound = 0.0);
Weights weights_of(Engine& engine);

// All stages give the bits of stage 0, and what plain libtorch gives but for rounding.
void expect_stages_equal(const GraphRun& run);

// Numbers that depend on the arguments alone; torch's generator belongs to all threads.
torch::Tensor numbers(std::vector<std::int64_t> shape, int seed);

template <typename Net>
std::function<std::shared_ptr<GraphNet>()> maker() {
  return [] { return std::make_shared<Net>(); };
}

}  // namespace zeroshard::test
