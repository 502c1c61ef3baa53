#include "tests/engine_account/account_support.h"

#include <ATen/Parallel.h>

#include "zeroshard/comm/thread.h"

namespace zeroshard::test {
namespace {

void append(std::vector<double>& all, const float* values, std::int64_t count) {
  all.insert(all.end(), values, values + count);
}

void append_states(std::vector<double>& all, const Core& core, std::size_t unit) {
  const FlatUnit& flat = core.unit(unit);
  for (std::size_t group = 0; group < flat.groups(); ++group) {
    if (!flat.layout().groups()[group].trainable) continue;
    const auto states = core.states().states(unit, group);
    const at::Tensor masters = core.states().masters(unit, group).cpu().contiguous();
    append(all, masters.const_data_ptr<float>(), masters.numel());
    for (const float* moment : states.moments) {
      if (moment != nullptr) append(all, moment, states.owned_numel);
    }
  }
  for (std::size_t i = 0; i < flat.parameters().size(); ++i) {
    all.push_back(static_cast<double>(core.states().steps(unit, i)));
  }
}

}  // namespace

void with_engine(const RunPlan& plan, const Prepare& prepare, const Body& body) {
  run_ranks(plan.ranks, {.timeout = std::chrono::seconds(30)}, [&](Communicator& comm) {
    at::set_num_threads(1);
    Model model(plan.shape);
    set_parameters(*model, 1);
    if (prepare) prepare(model);
    Engine engine(model, plan.options, comm);
    body(model, engine, comm);
  });
}

StepResult train_step(const RunPlan& plan, Model& model, Engine& engine, int step,
                      const AddToLoss& add_to_loss) {
  const auto micro_steps = static_cast<int>(plan.options.accumulation_steps);
  const std::int64_t rows = plan.rows / plan.ranks;
  StepResult result;
  for (int micro = 0; micro < micro_steps; ++micro) {
    const auto batch = batch_of(plan.rows, 9, plan.shape.vocabulary,
                                static_cast<std::uint64_t>(step * micro_steps + micro));
    torch::Tensor loss = model->loss(batch.narrow(0, engine.core().comm().rank() * rows, rows));
    if (add_to_loss) loss = loss + add_to_loss(micro);
    engine.backward(loss);
    result = engine.step();
  }
  return result;
}

ModelLayout layout_of(const Core& core) {
  std::vector<UnitLayout> units;
  std::optional<std::size_t> root;
  for (std::size_t i = 0; i < core.units(); ++i) {
    units.push_back(core.unit(i).layout());
    if (!core.unit(i).has_call_point()) root = i;
  }
  return ModelLayout(std::move(units), root);
}

FootprintOptions footprint_options_of(const EngineOptions& options) {
  return {.zero = options.zero,
          .offload = options.offload,
          .precision = options.precision,
          .moments_per_parameter = moments_per_parameter(options.parameter_groups.front()),
          .micro_steps = options.accumulation_steps};
}

std::vector<double> states_of(Engine& engine) {
  engine.finish();
  std::vector<double> all;
  engine.visit_parameters([&](const std::string&, const at::Tensor& full) {
    const at::Tensor flat = full.detach().to(at::kFloat).reshape({-1}).contiguous();
    append(all, flat.const_data_ptr<float>(), flat.numel());
  });
  for (std::size_t unit = 0; unit < engine.core().units(); ++unit) {
    append_states(all, engine.core(), unit);
  }
  return all;
}

}  // namespace zeroshard::test
