// What an engine is made with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/engine/options.h"
#include "zeroshard/layout/tier_plan.h"
#include "zeroshard/layout/unit_layout.h"
#include "zeroshard/monitor/trace.h"
#include "zeroshard/optim/options.h"
#include "zeroshard/precision/options.h"
#include "zeroshard/tier/options.h"

namespace zeroshard {

struct EngineOptions;

// Decides by the whole model and the machine's memory which states are on the host. It is called on
// every rank once the units are made, and before anything else is allocated. `held_on_host`: what
// the units' parameters take there. It throws where the plan does not fit.
using FitMemory = std::function<FittedMemory(const EngineOptions& options, const ModelLayout& model,
                                             std::int64_t held_on_host, Communicator& comm)>;

struct EngineOptions {
  ZeroOptions zero = {};
  OffloadOptions offload = {};
  FitMemory fit_memory = {};
  PrecisionOptions precision = {};
  std::int64_t accumulation_steps = 1;
  // A parameter is in the group that `parameter_group_of` gives for its name; without it in the
  // first. Learning rates may change between steps.
  std::vector<OptimizerOptions> parameter_groups = {AdamOptions{}};
  std::function<int(const std::string& parameter)> parameter_group_of = {};
  Device device = kCpu;
  DeviceSums sums = DeviceSums::none;  // the communicator's, which says so itself
  int threads = 0;                     // of the optimizer; 0: one per usable CPU
  Trace* trace = nullptr;              // of what happens when, if any; it outlives the engine
  // Instead of our kernels: updates the masters of core.master_segments() from their gradients,
  // unscaled and clipped (undefined where no rank had one). It has no moments of ours.
  std::function<void(const std::vector<at::Tensor>& gradients)> update = {};
  // A released parameter has no elements, rather than a shape and no memory. It is then safe to
  // copy, print and count, which matters where others do so: in Python.
  bool empties_released = false;
  // Parameters stay of the type they are: whoever made them has chosen, as PEFT does for adapters.
  bool keeps_dtypes = false;
  // Where a rank has all gradients, `.grad` shows them: G from the backward that ends the step to
  // step(), where it is replicated, and the local sums while show_local() is on. G is then gathered
  // when backward ends, rather than in step().
  bool shows_gradients = false;
  // Called when a backward has ended, whoever called it, without a lock of the core's.
  std::function<void(bool shown)> after_backward = {};
};

}  // namespace zeroshard
