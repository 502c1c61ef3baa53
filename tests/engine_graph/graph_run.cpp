#include "tests/engine_graph/graph_run.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include "zeroshard/comm/thread.h"

namespace zeroshard::test {
namespace {

std::vector<float> floats(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.detach().to(torch::kFloat).reshape({-1}).contiguous();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

struct Shared {
  GraphTrace trace;
  std::mutex mutex;
};

torch::Tensor usual_step(const GraphRun& run, GraphNet& net, Engine& engine, int step, int rank,
                         double& norm) {
  if (run.train_step) return run.train_step(net, engine, step, rank);
  torch::Tensor loss = net.loss(step, rank);
  if (loss.defined()) engine.backward(loss);
  norm = engine.step().gradient_norm;
  return loss;
}

void train_rank(const GraphRun& run, EngineOptions options, Communicator& comm, Shared& shared) {
  at::set_num_threads(1);
  const std::shared_ptr<GraphNet> net = run.make();
  set_parameters(*net, 1);
  options.parameter_groups = {run.optimizer};
  options.precision.bf16.enabled = run.dtype == DType::bf16;
  Engine engine(static_cast<torch::nn::Module&>(*net), options, comm);
  for (int step = 0; step < run.steps; ++step) {
    double norm = 0.0;
    const torch::Tensor loss = usual_step(run, *net, engine, step, comm.rank(), norm);
    const std::lock_guard lock(shared.mutex);
    const int at = step * comm.world_size() + comm.rank();
    shared.trace.losses[static_cast<std::size_t>(at)] = loss.defined() ? loss.item<double>() : 0.0;
    shared.trace.norms[static_cast<std::size_t>(step)] = norm;
  }
  const Weights weights = weights_of(engine);
  const std::lock_guard lock(shared.mutex);
  if (comm.rank() == 0) shared.trace.weights = weights;
}

GraphTrace empty_trace(const GraphRun& run) {
  GraphTrace trace;
  trace.losses.resize(static_cast<std::size_t>(run.steps * run.ranks));
  trace.norms.resize(static_cast<std::size_t>(run.steps));
  return trace;
}

// Adds a rank's gradients to the sums and clears them; a parameter without any stays without.
void take_gradients(GraphNet& net, int ranks, std::map<std::string, torch::Tensor>& sums) {
  for (const auto& parameter : net.named_parameters()) {
    torch::Tensor& gradient = parameter.value().mutable_grad();
    if (!gradient.defined()) continue;
    torch::Tensor& sum = sums[parameter.key()];
    const torch::Tensor share = gradient / ranks;
    sum = sum.defined() ? sum + share : share;
    gradient.reset();
  }
}

std::string compare(const std::vector<double>& a, const std::vector<double>& b, double bound,
                    const std::string& name) {
  if (a.size() != b.size())
    return fmt::format("{}: {} against {} values", name, a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::abs(a[i] - b[i]) <= bound) continue;
    return fmt::format("{}[{}]: {:.9} against {:.9}", name, i, a[i], b[i]);
  }
  return "";
}

}  // namespace

EngineOptions graph_options(int stage) {
  EngineOptions options;
  options.zero.stage = stage;
  options.zero.persistence_numel = 0;
  options.zero.reduce_bucket_numel = 300;
  options.zero.prefetch_numel = 200;
  options.precision.gradient_clipping = 0.0;
  options.threads = 1;
  return options;
}

Weights weights_of(Engine& engine) {
  Weights weights;
  engine.visit_parameters(
      [&](const std::string& name, const at::Tensor& full) { weights[name] = floats(full); });
  return weights;
}

GraphTrace train_graph(const GraphRun& run, const EngineOptions& options) {
  Shared shared{.trace = empty_trace(run), .mutex = {}};
  run_ranks(run.ranks, {.timeout = std::chrono::seconds(10)},
            [&](Communicator& comm) { train_rank(run, options, comm, shared); });
  return shared.trace;
}

GraphTrace train_graph(const GraphRun& run, int stage) {
  return train_graph(run, graph_options(stage));
}

GraphTrace train_plain(const GraphRun& run) {
  at::set_num_threads(1);
  const auto& sgd = std::get<SgdOptions>(run.optimizer);
  const std::shared_ptr<GraphNet> net = run.make();
  set_parameters(*net, 1);
  std::vector<torch::Tensor> trained;
  for (const torch::Tensor& each : net->parameters()) {
    // libtorch lists a tied parameter once for each of its names.
    const bool known = std::ranges::any_of(trained, [&](const auto& t) { return t.is_same(each); });
    if (each.requires_grad() && !known) trained.push_back(each);
  }
  torch::optim::SGD optimizer(
      trained,
      torch::optim::SGDOptions(sgd.lr).momentum(sgd.momentum).weight_decay(sgd.weight_decay));
  GraphTrace trace = empty_trace(run);
  trace.norms.clear();
  for (int step = 0; step < run.steps; ++step) {
    std::map<std::string, torch::Tensor> sums;
    for (int rank = 0; rank < run.ranks; ++rank) {
      const torch::Tensor loss = net->loss(step, rank);
      if (!loss.defined()) continue;
      loss.backward();
      trace.losses[static_cast<std::size_t>(step * run.ranks + rank)] = loss.item<double>();
      take_gradients(*net, run.ranks, sums);
    }
    for (const auto& parameter : net->named_parameters()) {
      if (const auto found = sums.find(parameter.key()); found != sums.end()) {
        parameter.value().mutable_grad() = found->second;
      }
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  for (const auto& each : net->named_parameters()) trace.weights[each.key()] = floats(each.value());
  return trace;
}

std::string difference(const GraphTrace& a, const GraphTrace& b, double bound) {
  std::string text = compare(a.losses, b.losses, bound, "loss");
  if (text.empty() && !a.norms.empty() && !b.norms.empty()) {
    text = compare(a.norms, b.norms, bound, "norm");
  }
  // A tied parameter has several names in libtorch and one here.
  for (auto it = a.weights.begin(); text.empty() && it != a.weights.end(); ++it) {
    const auto other = b.weights.find(it->first);
    if (other == b.weights.end()) return it->first + " is missing";
    text = compare({it->second.begin(), it->second.end()},
                   {other->second.begin(), other->second.end()}, bound, it->first);
  }
  return text;
}

void expect_stages_equal(const GraphRun& run) {
  const GraphTrace expected = train_graph(run, 0);
  EXPECT_EQ(difference(expected, train_plain(run), 2e-5), "") << "plain libtorch";
  for (const int stage : {1, 2, 3}) {
    EXPECT_EQ(difference(expected, train_graph(run, stage)), "") << "stage " << stage;
  }
}

torch::Tensor numbers(std::vector<std::int64_t> shape, int seed) {
  const torch::Tensor all = torch::empty(shape);
  auto* data = all.data_ptr<float>();
  for (std::int64_t i = 0; i < all.numel(); ++i) {
    data[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i + 1) + 1.3 * seed));
  }
  return all;
}

}  // namespace zeroshard::test
