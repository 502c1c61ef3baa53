// Stage and offload where a configuration says "auto", for the parameters of a model.
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "python/bindings/config.h"
#include "zeroshard/base/memory_room.h"
#include "zeroshard/setup/plan_run.h"

namespace zeroshard::python {
namespace {

// What of a model and a machine a choice needs.
struct ChoiceFacts {
  int ranks = 1;
  int ranks_on_host = 1;
  bool on_accelerator = false;
  std::int64_t micro_steps = 1;
  // Of each rank. Unset: not known. On the CPU there is the host's alone, for both.
  std::optional<std::int64_t> device_bytes;
  std::optional<std::int64_t> host_bytes;
};

using Parameter = std::tuple<std::string, std::vector<std::int64_t>, bool>;  // trainable
using UnitOfModel = std::tuple<std::string, std::vector<Parameter>, bool>;   // the root

std::vector<PlannedUnit> planned_units(const std::vector<UnitOfModel>& units) {
  std::vector<PlannedUnit> all;
  for (const auto& [name, parameters, is_root] : units) {
    PlannedUnit unit{.name = name, .is_root = is_root};
    for (const auto& [path, dims, trainable] : parameters) {
      unit.parameters.push_back({.name = path, .dims = dims, .trainable = trainable});
    }
    all.push_back(std::move(unit));
  }
  return all;
}

// The configuration without "auto" for them, and the sentence that gives the reason.
std::pair<PythonConfig, std::string> choose_variant(const PythonConfig& config,
                                                    const std::vector<UnitOfModel>& units,
                                                    const ChoiceFacts& facts) {
  PythonConfig chosen = config;
  const auto model = laid_out_model(planned_units(units));
  PlanSubject subject = plan_subject(config.read, *model,
                                     {.ranks = facts.ranks,
                                      .ranks_per_node = facts.ranks_on_host,
                                      .on_accelerator = facts.on_accelerator,
                                      .micro_steps = facts.micro_steps});
  subject.overheads = {};  // the process is here already, and what it holds is not free
  const VariantPlanner planner(std::move(subject));
  MemoryLimits limits;
  if (facts.on_accelerator) {
    limits = {.device = facts.device_bytes, .host = facts.host_bytes};
  } else {
    limits.both = facts.host_bytes;
  }
  std::string reason = settle_variant(chosen.read, planner, limits);
  return {std::move(chosen), std::move(reason)};
}

}  // namespace

void bind_choice(py::module_& module) {
  py::class_<ChoiceFacts>(module, "ChoiceFacts")
      .def(py::init<>())
      .def_readwrite("ranks", &ChoiceFacts::ranks)
      .def_readwrite("ranks_on_host", &ChoiceFacts::ranks_on_host)
      .def_readwrite("on_accelerator", &ChoiceFacts::on_accelerator)
      .def_readwrite("micro_steps", &ChoiceFacts::micro_steps)
      .def_readwrite("device_bytes", &ChoiceFacts::device_bytes)
      .def_readwrite("host_bytes", &ChoiceFacts::host_bytes);
  module.def("leaves_variant_open",
             [](const PythonConfig& config) { return leaves_open(config.read); });
  module.def("choose_variant", &choose_variant);
  // What this machine, or the cgroup that the process is in, can still give; None if not known.
  module.def("host_memory_room", []() -> std::optional<std::int64_t> {
    const auto room = memory_room();
    if (!room) return std::nullopt;
    return room->bytes;
  });
}

}  // namespace zeroshard::python
