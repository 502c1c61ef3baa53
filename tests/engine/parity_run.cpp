#include "tests/engine/parity_run.h"

#include <mutex>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "zeroshard/comm/thread.h"

namespace zeroshard::test {
namespace {

Model make_model(const RunPlan& plan, Communicator& comm) {
  if (!plan.init) {
    Model model(plan.shape);
    set_parameters(*model, 1);
    return model;
  }
  const Init scope(plan.options, comm);
  return Model(plan.shape);
}

void train_rank(const RunPlan& plan, Communicator& comm, Trace& trace, std::mutex& mutex) {
  at::set_num_threads(1);
  Model model = make_model(plan, comm);
  Engine engine(model, plan.options, comm);
  const std::int64_t rows = plan.rows / comm.world_size();
  const auto micro_steps = static_cast<int>(plan.options.accumulation_steps);
  for (int step = 0; step < plan.steps; ++step) {
    StepResult result;
    for (int micro = 0; micro < micro_steps; ++micro) {
      const auto batch = batch_of(plan.rows, 9, plan.shape.vocabulary,
                                  static_cast<std::uint64_t>(step * micro_steps + micro));
      const torch::Tensor loss = model->loss(batch.narrow(0, comm.rank() * rows, rows));
      engine.backward(loss);
      result = engine.step();
      const std::lock_guard lock(mutex);
      const auto at =
          static_cast<std::size_t>((step * micro_steps + micro) * comm.world_size() + comm.rank());
      trace.losses[at] = loss.item<double>();
    }
    const std::lock_guard lock(mutex);
    if (comm.rank() != 0) continue;
    trace.norms.push_back(result.gradient_norm);
    trace.applied.push_back(result.applied);
  }
  std::vector<float> weights;
  engine.visit_parameters([&](const std::string&, const at::Tensor& full) {
    const at::Tensor flat = full.detach().to(at::kFloat).reshape({-1}).contiguous();
    weights.insert(weights.end(), flat.const_data_ptr<float>(),
                   flat.const_data_ptr<float>() + flat.numel());
  });
  const std::lock_guard lock(mutex);
  if (comm.rank() == 0) trace.weights = weights;
}

}  // namespace

Trace train(const RunPlan& plan) {
  Trace trace;
  trace.losses.resize(
      static_cast<std::size_t>(plan.steps * plan.options.accumulation_steps * plan.ranks));
  std::mutex mutex;
  run_ranks(plan.ranks, {.timeout = std::chrono::seconds(30)},
            [&](Communicator& comm) { train_rank(plan, comm, trace, mutex); });
  return trace;
}

std::string difference(const Trace& a, const Trace& b) {
  const auto first = [](const auto& x, const auto& y, const char* name) -> std::string {
    if (x.size() != y.size())
      return fmt::format("{}: {} against {} values", name, x.size(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] != y[i]) {
        return fmt::format("{}[{}]: {} against {}", name, i, static_cast<double>(x[i]),
                           static_cast<double>(y[i]));
      }
    }
    return "";
  };
  for (const std::string& text :
       {first(a.losses, b.losses, "loss"), first(a.norms, b.norms, "norm"),
        first(a.applied, b.applied, "applied"), first(a.weights, b.weights, "weight")}) {
    if (!text.empty()) return text;
  }
  return "";
}

}  // namespace zeroshard::test
