// Engines under the account: a model on ranks that are threads, and what the layout promises of it.
#pragma once

#include <functional>
#include <vector>

#include "tests/engine/parity_run.h"
#include "zeroshard/layout/unit_layout.h"
#include "zeroshard/planner/footprint.h"

namespace zeroshard::test {

using Prepare = std::function<void(Model&)>;
using Body = std::function<void(Model&, Engine&, Communicator&)>;

// `prepare` may freeze parameters, before the engine is made.
void with_engine(const RunPlan& plan, const Prepare& prepare, const Body& body);

// All micro-steps of one step. `add_to_loss`, if any, is added to each micro-step's.
using AddToLoss = std::function<torch::Tensor(int micro)>;
StepResult train_step(const RunPlan& plan, Model& model, Engine& engine, int step,
                      const AddToLoss& add_to_loss = {});

// The engine's units as the planner sees them.
ModelLayout layout_of(const Core& core);
FootprintOptions footprint_options_of(const EngineOptions& options);

// Everything an update may change on this rank, and nothing else: parameters, masters, moments and
// step counts.
std::vector<double> states_of(Engine& engine);

}  // namespace zeroshard::test
