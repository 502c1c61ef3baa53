// Trains the small model on ranks that are threads and returns all that must not change.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/test_model.h"
#include "zeroshard/engine/engine.h"

namespace zeroshard::test {

struct RunPlan {
  EngineOptions options = {};
  ModelShape shape = {};
  int ranks = 1;
  int steps = 10;
  int rows = 12;  // of a global micro-batch; divided among the ranks
  bool init = false;
  int first_step = 0;                        // whose batch comes first
  std::function<void(Model&)> prepare = {};  // before the engine is made; not under init
  // Around training, on each rank.
  std::function<void(Engine&, Communicator&)> before = {};
  std::function<void(Engine&, Communicator&)> after = {};
  std::function<void(Engine&, Communicator&, int step)> after_step = {};
  // Whether a rank computes anything in a micro-step, counted from the first; unset: it does.
  std::function<bool(int rank, int micro)> takes_part = {};
};

RunPlan small_plan(int stage, int ranks, DType dtype = DType::fp32, std::int64_t micro_steps = 1);

struct Trace {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<bool> applied;
  std::vector<float> weights;  // all parameters at the end, in full

  bool operator==(const Trace&) const = default;
};

// On ranks that are threads; losses are by micro-step and rank.
Trace train(const RunPlan& plan);
// This rank's part of it, on any communicator: losses are its own. Weights and norms are all
// ranks'.
Trace train_rank(const RunPlan& plan, Communicator& comm);
std::string difference(const Trace& a, const Trace& b);

}  // namespace zeroshard::test
