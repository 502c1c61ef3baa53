// Runs that are cut in two by a checkpoint.
#pragma once

#include <string>

#include "tests/engine/parity_run.h"
#include "tests/support/temporary_folder.h"
#include "zeroshard/checkpoint/checkpoint_save.h"
#include "zeroshard/checkpoint/model_states.h"
#include "zeroshard/engine/core_states.h"

namespace zeroshard::test {

inline void save_engine(Engine& engine, Communicator& comm, const std::filesystem::path& folder,
                        const std::string& tag = "saved") {
  engine.finish();
  const CoreStates states(engine.core());
  SaveFolder to(comm, folder);
  CheckpointSave save(to, {.tag = tag}, contents_of(states), comm);
  save.run(copy_of(states), SaveStaging(), comm);
}

inline LoadReport load_engine(Engine& engine, const std::filesystem::path& folder,
                              const LoadOptions& options = {}) {
  CoreStates states(engine.core());
  LoadReport report = load_states(StateFiles::open(folder), states, options);
  engine.core().adopt_masters();
  return report;
}

// The same run with a checkpoint after half of its steps, and a new engine that goes on from it.
inline Trace train_in_two(RunPlan first, RunPlan second, const std::filesystem::path& folder) {
  const int steps = first.steps;
  LossScalerState scaler;
  first.steps = steps / 2;
  first.after = [&](Engine& engine, Communicator& comm) {
    if (comm.rank() == 0) scaler = engine.core().scaler().state();
    save_engine(engine, comm, folder);
  };
  Trace all = train(first);
  second.first_step = steps / 2;
  second.before = [&](Engine& engine, Communicator&) {
    load_engine(engine, folder);
    engine.core().scaler().restore(scaler);
  };
  const Trace rest = train(second);
  all.losses.insert(all.losses.end(), rest.losses.begin(), rest.losses.end());
  all.norms.insert(all.norms.end(), rest.norms.begin(), rest.norms.end());
  all.applied.insert(all.applied.end(), rest.applied.begin(), rest.applied.end());
  all.weights = rest.weights;
  return all;
}

}  // namespace zeroshard::test
