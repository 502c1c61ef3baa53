// ZeRO for a C++ model: stages as placements, one call for backward, one for the step.
//
//   // Units are found in the model's tree; the other parameters are the root unit.
//   auto engine = zeroshard::Engine(model, options, comm);
//   for (auto& batch : loader) {
//     auto loss = model->forward(batch);
//     engine.backward(loss);  // scales, differentiates, reduces
//     engine.step();          // acts at the accumulation boundary
//   }
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "zeroshard/base/unwinding.h"
#include "zeroshard/engine/core.h"
#include "zeroshard/engine/find_units.h"

namespace zeroshard {

// Full parameters, readable while it lives. Collective: all ranks make and destroy it together.
// What goes wrong at its end is thrown by close(), or else by the engine's next call.
class FullParams {
 public:
  // `writes`: what this scope's holder writes into parameters becomes theirs. All ranks write the
  // same; or one does, and `from` is its number.
  struct Access {
    bool writes = false;
    int from = -1;
  };
  FullParams(Core& core, std::vector<std::size_t> units, Access access);
  ~FullParams();
  FullParams(const FullParams&) = delete;
  FullParams& operator=(const FullParams&) = delete;

  void close();

 private:
  Core& core_;
  const std::vector<std::size_t> units_;
  std::size_t open_ = 0;  // of these, from the first on
  const Access access_;
  const Unwinding unwinding_;
};

class Engine {
 public:
  Engine(torch::nn::Module& model, EngineOptions options, Communicator& comm);
  // A holder, as TORCH_MODULE makes them.
  template <typename Holder>
  requires requires(Holder& holder) { holder.ptr(); }
  Engine(Holder& model, EngineOptions options, Communicator& comm)
      : Engine(static_cast<torch::nn::Module&>(*model), std::move(options), comm) {}
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void backward(const at::Tensor& loss) { core_->backward(loss); }
  // For those who call scale(loss).backward() themselves, which fp16 needs.
  at::Tensor scale(const at::Tensor& loss) { return core_->scale(loss); }
  StepResult step() { return core_->step(); }
  // Finishes everything asynchronous.
  void finish() { core_->quiesce(); }

  // Of all units, or of those named.
  std::unique_ptr<FullParams> full_params(FullParams::Access access = {});
  std::unique_ptr<FullParams> full_params_of(const std::vector<std::string>& units,
                                             FullParams::Access access = {});
  // Every parameter in full, one unit at a time.
  using Visitor = std::function<void(const std::string& name, const at::Tensor& full)>;
  void visit_parameters(const Visitor& visit);

  // Values by name and element; each rank asks for its own elements only.
  void fill_parameters(const ParameterFiller& fill) { core_->fill_parameters(fill); }

  Core& core() { return *core_; }

 private:
  std::unique_ptr<Core> core_;
};

}  // namespace zeroshard
