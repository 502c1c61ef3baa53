#include "tests/engine/parity_run.h"

#include <stdexcept>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "zeroshard/comm/thread.h"
#include "zeroshard/engine/tensors.h"

namespace zeroshard::test {
namespace {

Model make_model(const RunPlan& plan, Communicator& comm) {
  if (!plan.init) {
    Model model(plan.shape);
    set_parameters(*model, 1);
    if (plan.prepare) plan.prepare(model);
    return model;
  }
  const Init scope(plan.options, comm);
  return Model(plan.shape);
}

std::vector<float> all_weights(Engine& engine) {
  std::vector<float> weights;
  engine.visit_parameters([&](const std::string&, const at::Tensor& full) {
    const at::Tensor flat = full.detach().to(at::kCPU, at::kFloat).reshape({-1}).contiguous();
    weights.insert(weights.end(), flat.const_data_ptr<float>(),
                   flat.const_data_ptr<float>() + flat.numel());
  });
  return weights;
}

}  // namespace

RunPlan small_plan(int stage, int ranks, DType dtype, std::int64_t micro_steps) {
  RunPlan plan;
  plan.ranks = ranks;
  plan.options.zero.stage = stage;
  plan.options.zero.persistence_numel = 0;
  plan.options.zero.reduce_bucket_numel = 2000;
  plan.options.zero.prefetch_numel = 3000;
  plan.options.accumulation_steps = micro_steps;
  plan.options.precision.bf16.enabled = dtype == DType::bf16;
  plan.options.precision.fp16.enabled = dtype == DType::fp16;
  plan.options.parameter_groups = {AdamOptions{.lr = 1e-2, .weight_decay = 0.1}};
  plan.options.threads = 1;
  return plan;
}

Trace train_rank(const RunPlan& plan, Communicator& comm) {
  at::set_num_threads(1);
  Trace trace;
  Model model = make_model(plan, comm);
  Engine engine(model, plan.options, comm);
  const std::int64_t rows = plan.rows / comm.world_size();
  const auto micro_steps = static_cast<int>(plan.options.accumulation_steps);
  if (plan.before) plan.before(engine, comm);
  for (int step = plan.first_step; step < plan.steps; ++step) {
    StepResult result;
    for (int micro = 0; micro < micro_steps; ++micro) {
      if (plan.takes_part && !plan.takes_part(comm.rank(), step * micro_steps + micro)) {
        result = engine.step();
        trace.losses.push_back(0.0);
        continue;
      }
      const auto batch = batch_of(plan.rows, 9, plan.shape.vocabulary,
                                  static_cast<std::uint64_t>(step * micro_steps + micro));
      const torch::Tensor own = batch.narrow(0, comm.rank() * rows, rows);
      const torch::Tensor loss = model->loss(own.to(to_torch(plan.options.device)));
      engine.backward(loss);
      result = engine.step();
      trace.losses.push_back(loss.item<double>());
    }
    trace.norms.push_back(result.gradient_norm);
    trace.applied.push_back(result.applied);
    if (plan.after_step) plan.after_step(engine, comm, step);
  }
  if (plan.after) plan.after(engine, comm);
  trace.weights = all_weights(engine);
  return trace;
}

Trace train(const RunPlan& plan) {
  std::vector<Trace> traces(static_cast<std::size_t>(plan.ranks));
  run_ranks(plan.ranks, {.timeout = std::chrono::seconds(30)}, [&](Communicator& comm) {
    traces[static_cast<std::size_t>(comm.rank())] = train_rank(plan, comm);
  });
  Trace all = traces.front();
  all.losses.clear();
  for (std::size_t i = 0; i < traces.front().losses.size(); ++i) {
    for (const Trace& trace : traces) all.losses.push_back(trace.losses[i]);
  }
  for (const Trace& trace : traces) {
    if (trace.weights != all.weights) throw std::logic_error("ranks end with different weights");
    if (trace.norms != all.norms) throw std::logic_error("ranks see different norms");
  }
  return all;
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
