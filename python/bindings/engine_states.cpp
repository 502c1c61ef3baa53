// Masters, moments and gradients of single parameters, as far as this rank has them.
#include <algorithm>
#include <string>

#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "python/bindings/engine_core.h"
#include "python/bindings/python_tensors.h"
#include "zeroshard/base/error.h"
#include "zeroshard/engine/tensors.h"
#include "zeroshard/setup/engine_options.h"

namespace zeroshard::python {
namespace {

// Where one kind of state of a flat group lies on this rank.
struct OwnedState {
  void* data = nullptr;
  DType dtype = DType::fp32;
  bool sharded = true;  // only the rank's span of the group
  Device device = kCpu;
};

// Whether the rank has only its span of a group's states.
bool has_span_only(const EngineCore& engine, std::size_t unit, std::size_t group) {
  const FlatLayout& layout = engine.core().unit(unit).layout().groups()[group].layout;
  return layout.world_size() > 1 &&
         engine.states().states(unit, group).owned_numel < layout.padded_numel();
}

OwnedState state_of(const EngineCore& engine, std::size_t unit, std::size_t group,
                    const std::string& which) {
  const OptimizerStates::GroupStates states = engine.states().states(unit, group);
  const bool sharded = has_span_only(engine, unit, group);
  if (which == "moment_0") return {states.moments[0], DType::fp32, sharded, states.device};
  if (which == "moment_1") return {states.moments[1], DType::fp32, sharded, states.device};
  const Reducer& reducer = engine.core().reducer();
  const Reducer::UnitGradients& gradients = reducer.units()[unit];
  const GradientGroup& of = gradients.groups[*gradients.group_of[group]];
  const bool whole = reducer.whole();
  const Piece reduced = whole ? of.all_reduced() : of.own_reduced();
  return {reduced.data, reduced.dtype, !whole, of.reduced_device()};
}

bool is_gradient(const std::string& which) {
  return which != "master" && which != "moment_0" && which != "moment_1";
}

// The group, where its gradients are held in tensors of their own; else null.
GradientGroup* held_gradients(Core& core, std::size_t unit, std::size_t group,
                              const std::string& which) {
  Reducer::UnitGradients& gradients = core.reducer().units()[unit];
  const std::optional<std::size_t> at = gradients.group_of[group];
  if (!is_gradient(which) || !at || !gradients.groups[*at].is_held()) return nullptr;
  return &gradients.groups[*at];
}

// All of it, since there is one rank.
py::tuple held_gradient(GradientGroup& group, std::size_t index, const at::Tensor& parameter) {
  if (!group.held(index).defined()) group.hold(index, at::zeros_like(parameter));
  return py::make_tuple(0, wrap(group.held(index).view({-1})));
}

// Whether the engine keeps such a state of the parameter: the same answer on every rank, whether or
// not it has a part of it.
bool has_state(EngineCore& engine, std::size_t unit, std::size_t parameter,
               const std::string& which) {
  const UnitLayout& layout = engine.core().unit(unit).layout();
  const std::size_t group = layout.locate(parameter).group;
  if (!layout.groups()[group].trainable) return false;
  if (which == "master" || held_gradients(engine.core(), unit, group, which) != nullptr)
    return true;
  return state_of(engine, unit, group, which).data != nullptr;
}

// What a unit's gradients are: "empty", "filling" (of this rank alone), "reducing" or "reduced".
std::string gradient_state(EngineCore& engine, std::size_t unit) {
  return std::string(name_of(engine.core().reducer().units().at(unit).state));
}

// This rank's elements of a parameter: the first one's number in it, and where they are in what the
// rank has of the group. There are none where all of them are on other ranks.
struct OwnElements {
  std::int64_t first = 0;
  std::int64_t at = 0;
  std::int64_t count = 0;
};

OwnElements own_elements(const FlatUnit& flat, std::size_t parameter, bool sharded) {
  const UnitLayout::Location at = flat.layout().locate(parameter);
  const FlatLayout& layout = flat.layout().groups()[at.group].layout;
  const Span whole = layout.parameter_span(at.index);
  const Span have = sharded ? layout.shard(flat.rank()) : Span(0, layout.padded_numel());
  const std::int64_t begin = std::clamp(have.begin(), whole.begin(), whole.end());
  const std::int64_t end = std::clamp(have.end(), begin, whole.end());
  return {begin - whole.begin(), begin < end ? begin - have.begin() : 0, end - begin};
}

// A tensor over the engine's own memory.
py::tuple own_part(const FlatUnit& flat, std::size_t parameter, const OwnedState& state) {
  const OwnElements own = own_elements(flat, parameter, state.sharded);
  return py::make_tuple(own.first, wrap(tensor_over(element_at(state.data, own.at, state.dtype),
                                                    own.count, state.dtype, state.device)));
}

// A copy where masters are in halves.
py::tuple own_masters(const EngineCore& engine, std::size_t unit, std::size_t parameter) {
  const FlatUnit& flat = engine.core().unit(unit);
  const std::size_t group = flat.layout().locate(parameter).group;
  const OwnElements own = own_elements(flat, parameter, has_span_only(engine, unit, group));
  return py::make_tuple(own.first, wrap(engine.states().masters(unit, group, own.at, own.count)));
}

OwnElements own_states(EngineCore& engine, std::size_t unit, std::size_t parameter) {
  const FlatUnit& flat = engine.core().unit(unit);
  const std::size_t group = flat.layout().locate(parameter).group;
  return own_elements(flat, parameter, has_span_only(engine, unit, group));
}

// Of which elements of a parameter this rank has the states: the first one, and how many.
py::tuple state_span(EngineCore& engine, std::size_t unit, std::size_t parameter) {
  const OwnElements own = own_states(engine, unit, parameter);
  return py::make_tuple(own.first, own.count);
}

// Whoever is given states may write them.
void wait_for_save(EngineCore& engine) {
  const py::gil_scoped_release others_run;
  engine.saves().wait();
}

// Of this rank's masters of a parameter those from `begin` on. Returns how many ties were settled.
std::int64_t write_own_masters(EngineCore& engine, std::size_t unit, std::size_t parameter,
                               const at::Tensor& values, std::int64_t begin) {
  wait_for_save(engine);
  const OwnElements own = own_states(engine, unit, parameter);
  const std::size_t group = engine.core().unit(unit).layout().locate(parameter).group;
  return engine.states().write_masters(unit, group, own.at + begin, values);
}

// None where the engine keeps no such state of the parameter.
py::object local_state(EngineCore& engine, std::size_t unit, std::size_t parameter,
                       const std::string& which) {
  if (!has_state(engine, unit, parameter, which)) return py::none();
  const FlatUnit& flat = engine.core().unit(unit);
  const UnitLayout::Location at = flat.layout().locate(parameter);
  if (GradientGroup* const held = held_gradients(engine.core(), unit, at.group, which)) {
    return held_gradient(*held, at.index, flat.parameters()[parameter].tensor);
  }
  wait_for_save(engine);
  if (which == "master") return own_masters(engine, unit, parameter);
  return own_part(flat, parameter, state_of(engine, unit, at.group, which));
}

// Of the parameter itself, frozen or not: the rank's span of it, in its own dtype.
// A step that was not waited for may still write it; where it lies on the host, no stream is behind
// that for who reads it.
py::tuple local_parameter(EngineCore& engine, std::size_t unit, std::size_t parameter) {
  const FlatUnit& flat = engine.core().unit(unit);
  {
    const py::gil_scoped_release others_run;
    engine.core().wait_for_unit(unit);
    if (flat.shard_device() == kCpu) {
      Stream::current(engine.core().state_memory().device()).synchronize();
    }
  }
  const std::size_t group = flat.layout().locate(parameter).group;
  return own_part(
      flat, parameter,
      {flat.shard(group), flat.layout().groups()[group].dtype, true, flat.shard_device()});
}

// All that this rank has of states, by unit and flat group: tensors over the engine's own memory,
// masters perhaps copies.
py::dict rank_tensors(EngineCore& engine) {
  Core& core = engine.core();
  py::dict all;
  for (std::size_t unit = 0; unit < core.units(); ++unit) {
    const FlatUnit& flat = core.unit(unit);
    for (std::size_t group = 0; group < flat.groups(); ++group) {
      if (!flat.layout().groups()[group].trainable) continue;
      const OptimizerStates::GroupStates states = engine.states().states(unit, group);
      const auto put = [&](const std::string& name, float* data) {
        if (data == nullptr) return;
        all[py::str(fmt::format("{}.{}.{}", unit, group, name))] =
            wrap(tensor_over(data, states.owned_numel, DType::fp32, states.device));
      };
      all[py::str(fmt::format("{}.{}.master", unit, group))] =
          wrap(engine.states().masters(unit, group));
      put("moment_0", states.moments[0]);
      put("moment_1", states.moments[1]);
    }
  }
  return all;
}

std::vector<std::vector<std::int64_t>> steps_of(EngineCore& engine) {
  std::vector<std::vector<std::int64_t>> all;
  for (std::size_t unit = 0; unit < engine.core().units(); ++unit) {
    std::vector<std::int64_t>& of_unit = all.emplace_back();
    for (std::size_t i = 0; i < engine.core().unit(unit).parameters().size(); ++i) {
      of_unit.push_back(engine.states().steps(unit, i));
    }
  }
  return all;
}

void set_steps(EngineCore& engine, const std::vector<std::vector<std::int64_t>>& steps) {
  for (std::size_t unit = 0; unit < steps.size(); ++unit) {
    for (std::size_t i = 0; i < steps[unit].size(); ++i) {
      engine.states().set_steps(unit, i, steps[unit][i]);
    }
  }
}

// Of units, those whose update has begun before the norm was known and was taken over by a step,
// and those that were taken back. None where no update may begin early.
py::object early_updates(EngineCore& engine) {
  const SpeculativeUpdates* const early = engine.core().speculation();
  if (early == nullptr) return py::none();
  return py::make_tuple(early->updated(), early->taken_back());
}

py::dict scaler_state(EngineCore& engine) {
  const LossScalerState& state = engine.core().scaler().state();
  py::dict all;
  all["dynamic"] = state.dynamic;
  all["scale"] = state.scale;
  all["iteration"] = state.iteration;
  all["last_overflow"] = state.last_overflow;
  all["hysteresis_left"] = state.hysteresis_left;
  return all;
}

void restore_scaler(EngineCore& engine, const py::dict& saved) {
  engine.core().scaler().restore(
      {.dynamic = saved["dynamic"].cast<bool>(),
       .scale = saved["scale"].cast<double>(),
       .iteration = saved["iteration"].cast<std::int64_t>(),
       .last_overflow = saved["last_overflow"].cast<std::int64_t>(),
       .hysteresis_left = saved["hysteresis_left"].cast<std::int64_t>()});
}

void adopt_masters(EngineCore& engine, std::optional<std::size_t> unit) {
  const py::gil_scoped_release others_run;
  engine.core().adopt_masters(unit);
}

py::dict memory_of(EngineCore& engine, Tier tier) {
  py::dict all;
  for (const Category category : kCategories) {
    all[py::str(std::string(name_of(category)))] = engine.core().memory().bytes(category, tier);
  }
  return all;
}

// By tier and category: what was planned, and the most that was held.
py::dict planned_memory_of(EngineCore& engine) {
  const Footprint plan = planned_footprint(engine.core());
  py::dict tiers;
  for (const Tier tier : {Tier::device, Tier::host}) {
    py::dict all;
    for (const Category category : kCategories) {
      all[py::str(std::string(name_of(category)))] =
          py::make_tuple(plan.bytes(category, tier), engine.core().memory().peak(category, tier));
    }
    tiers[tier == Tier::device ? "device" : "host"] = all;
  }
  return tiers;
}

py::dict traffic_of(EngineCore& engine) {
  py::dict all;
  for (const auto& [key, entry] : engine.core().traffic().entries()) {
    all[py::make_tuple(std::string(name_of(key.first)), key.second)] =
        py::make_tuple(entry.calls, entry.bytes);
  }
  return all;
}

py::list master_segments(EngineCore& engine) {
  py::list all;
  for (const MasterSegment& segment : engine.core().master_segments()) {
    all.append(py::make_tuple(segment.parameter_group, wrap(segment.master)));
  }
  return all;
}

}  // namespace

void bind_engine_states(py::class_<EngineCore>& type) {
  type.def("has_state", &has_state)
      .def("gradient_state", &gradient_state)
      .def("local_state", &local_state)
      .def("local_parameter", &local_parameter)
      .def("state_span", &state_span)
      .def("write_masters", &write_own_masters, py::arg("unit"), py::arg("parameter"),
           py::arg("values"), py::arg("begin") = 0)
      .def("rank_tensors", &rank_tensors)
      .def("steps", &steps_of)
      .def("steps_of", [](EngineCore& engine, std::size_t unit,
                          std::size_t parameter) { return engine.states().steps(unit, parameter); })
      .def("set_steps", &set_steps)
      .def("early_updates", &early_updates)
      .def("scaler_state", &scaler_state)
      .def("restore_scaler", &restore_scaler)
      .def("adopt_masters", &adopt_masters, py::arg("unit") = py::none())
      .def("last_unit", [](EngineCore& engine) { return engine.core().last_unit(); })
      .def("device_memory", [](EngineCore& engine) { return memory_of(engine, Tier::device); })
      .def("host_memory", [](EngineCore& engine) { return memory_of(engine, Tier::host); })
      .def("planned_memory", &planned_memory_of)
      .def("traffic", &traffic_of)
      .def("master_segments", &master_segments)
      .def("gradients_are_whole",
           [](EngineCore& engine) { return engine.core().reducer().whole(); })
      .def("shows_gradients", [](EngineCore& engine) { return engine.core().shows_gradients(); })
      .def("shows_local", [](EngineCore& engine) { return engine.core().shows_local(); })
      .def("wait_for_gradients", [](EngineCore& engine) {
        const py::gil_scoped_release others_run;
        engine.core().finish_reductions();
      });
}

}  // namespace zeroshard::python
