// The engine as Python drives it: units are handed over one by one, so that no more than one of
// them need be in memory in full; then the core is made of them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pybind11/pybind11.h>

#include "python/bindings/arriving_parameters.h"
#include "python/bindings/engine_saves.h"
#include "python/bindings/forward_hooks.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/engine/core.h"

namespace zeroshard::python {

namespace py = pybind11;

// Reads the hyper-parameters of one of torch's parameter groups: its dictionary is the truth.
OptimizerOptions optimizer_options(const std::string& kind, const py::dict& group);

class EngineCore {
 public:
  EngineCore(EngineOptions options, std::shared_ptr<Communicator> comm, std::string optimizer_kind);
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;
  ~EngineCore() { close(); }

  // Takes the parameters over. All ranks add the same units in the same order.
  void add_unit(const std::string& name, const std::vector<std::string>& names,
                const py::list& parameters, bool has_call_point, bool frozen);
  void finish();
  // Gives everything back now, whoever still holds this object.
  void close();

  Core& core() const;
  // The core's, without Python's lock while updates that are under way are waited for: their
  // threads may need it, to give back a gradient that Python knows.
  OptimizerStates& states() const;
  Communicator& comm() const { return *comm_; }
  std::unique_ptr<ModuleHook> make_hook(std::optional<std::size_t> unit, bool guards) const;
  ForwardHooks& hooks() const { return *hooks_; }
  EngineSaves& saves() const { return core(), *saves_; }

  void backward(const at::Tensor& loss, bool averages, bool keeps_graph);
  at::Tensor scale(const at::Tensor& loss);
  // `waits`: until all parameters are the new ones, whoever reads them. Without, reads on the
  // current stream are, and look-ups in guarded dictionaries wait for what other ranks send.
  void take_parameter_groups(const py::list& parameter_groups);
  py::dict step(const py::list& parameter_groups, bool waits);
  // Waits for all that a step has left under way.
  void finish_step();

  // Full parameters, for as long as the caller says; inside a forward until the module under way
  // ends. Returns whether leave_full() must follow.
  bool enter_full(const std::vector<std::size_t>& units, bool writes);
  void leave_full(const std::vector<std::size_t>& units, Written written, int from);

 private:
  EngineOptions options_;
  std::shared_ptr<Communicator> comm_;
  const std::string optimizer_kind_;
  std::shared_ptr<StateMemory> memory_;
  std::vector<UnitSize> so_far_;
  std::vector<std::unique_ptr<FlatUnit>> units_;
  std::unique_ptr<Core> core_;
  std::shared_ptr<ForwardHooks> hooks_;
  std::shared_ptr<ArrivingParameters> arriving_;
  std::unique_ptr<EngineSaves> saves_;
};

void bind_engine_core(py::module_& module);
void bind_engine_states(py::class_<EngineCore>& type);
void bind_engine_offload(py::class_<EngineCore>& type);
void bind_full_weights(py::class_<EngineCore>& type);

}  // namespace zeroshard::python
