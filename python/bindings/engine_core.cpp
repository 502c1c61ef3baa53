#include "python/bindings/engine_core.h"

#include <utility>

#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/native_enum.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "python/bindings/checkpoint_files.h"
#include "python/bindings/config.h"
#include "python/bindings/python_tensors.h"
#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"

namespace zeroshard::python {
namespace {

double number(const py::dict& group, const char* key, double otherwise) {
  return group.contains(key) ? py::float_(py::object(group[key])).cast<double>() : otherwise;
}

bool flag(const py::dict& group, const char* key, bool otherwise) {
  return group.contains(key) && !group[key].is_none() ? group[key].cast<bool>() : otherwise;
}

std::array<double, 2> betas(const py::dict& group, std::array<double, 2> otherwise) {
  if (!group.contains("betas")) return otherwise;
  const auto pair = py::list(py::object(group["betas"]));
  return {py::float_(pair[0]).cast<double>(), py::float_(pair[1]).cast<double>()};
}

AdamOptions adam(const py::dict& group) {
  AdamOptions options;
  options.lr = number(group, "lr", options.lr);
  options.betas = betas(group, options.betas);
  options.eps = number(group, "eps", options.eps);
  options.weight_decay = number(group, "weight_decay", options.weight_decay);
  options.bias_correction = flag(group, "bias_correction", options.bias_correction);
  return options;
}

py::dict result_of(const StepResult& result) {
  py::dict all;
  all["boundary"] = result.boundary;
  all["applied"] = result.applied;
  all["gradient_norm"] = result.gradient_norm;
  all["loss_scale"] = result.loss_scale;
  return all;
}

}  // namespace

OptimizerOptions optimizer_options(const std::string& kind, const py::dict& group) {
  if (kind == "sgd") {
    return SgdOptions{.lr = number(group, "lr", 1e-3),
                      .momentum = number(group, "momentum", 0.0),
                      .dampening = number(group, "dampening", 0.0),
                      .weight_decay = number(group, "weight_decay", 0.0),
                      .nesterov = flag(group, "nesterov", false)};
  }
  if (kind == "lion") {
    return LionOptions{.lr = number(group, "lr", 1e-3),
                       .betas = betas(group, {0.9, 0.999}),
                       .weight_decay = number(group, "weight_decay", 0.0)};
  }
  if (kind == "adagrad") {
    return AdagradOptions{.lr = number(group, "lr", 1e-2),
                          .eps = number(group, "eps", 1e-10),
                          .weight_decay = number(group, "weight_decay", 0.0)};
  }
  AdamOptions options = adam(group);
  options.decoupled_decay = kind != "adam_l2";
  return options;
}

EngineCore::EngineCore(EngineOptions options, std::shared_ptr<Communicator> comm,
                       std::string optimizer_kind)
    : options_(std::move(options)),
      comm_(std::move(comm)),
      optimizer_kind_(std::move(optimizer_kind)),
      memory_(Core::make_memory(options_)) {}

void EngineCore::add_unit(const std::string& name, const std::vector<std::string>& names,
                          const py::list& parameters, bool has_call_point, bool frozen) {
  UnitSpec spec{.name = name, .parameters = {}, .has_call_point = has_call_point};
  for (std::size_t i = 0; i < names.size(); ++i) {
    spec.parameters.push_back({names[i], tensor_of(parameters[i]), frozen});
  }
  const FlatUnitOptions unit = Core::unit_options(options_, spec, *comm_, so_far_);
  units_.push_back(std::make_unique<FlatUnit>(spec, unit, memory_));
}

void EngineCore::finish() {
  const py::gil_scoped_release others_run;
  core_ = std::make_unique<Core>(std::move(units_), memory_, options_, *comm_);
  hooks_ = std::make_shared<ForwardHooks>(*core_);
  arriving_ = std::make_shared<ArrivingParameters>(*core_);
  saves_ = std::make_unique<EngineSaves>();
}

void EngineCore::close() {
  // A second time there is nothing to give back, and Python's lock stays: the collector may be at
  // it.
  if (core_ == nullptr && units_.empty() && comm_ == nullptr) return;
  if (hooks_ != nullptr) hooks_->close();
  arriving_.reset();
  options_.update = {};
  options_.after_backward = {};
  const py::gil_scoped_release others_run;
  saves_.reset();
  core_.reset();
  units_.clear();
  comm_.reset();
}

Core& EngineCore::core() const {
  if (core_ == nullptr) {
    throw StateError({.what = "the engine has been destroyed, or is not made yet",
                      .remedy = "call initialize() for a new one"});
  }
  return *core_;
}

OptimizerStates& EngineCore::states() const {
  Core& core = this->core();
  const py::gil_scoped_release others_run;
  return core.states();
}

std::unique_ptr<ModuleHook> EngineCore::make_hook(std::optional<std::size_t> unit,
                                                  bool guards) const {
  return std::make_unique<ModuleHook>(hooks_, unit.value_or(kNoUnit), guards);
}

void EngineCore::backward(const at::Tensor& loss, bool averages, bool keeps_graph) {
  const py::gil_scoped_release others_run;
  core().backward(loss, {.averages = averages, .keeps_graph = keeps_graph});
}

at::Tensor EngineCore::scale(const at::Tensor& loss) {
  const py::gil_scoped_release others_run;
  return core().scale(loss);
}

// As Python's dictionaries are just now.
void EngineCore::take_parameter_groups(const py::list& parameter_groups) {
  const std::size_t known = core().parameter_groups().size();
  if (!options_.update && parameter_groups.size() != known) {
    throw StateError({.what = "the optimizer has other parameter groups than at initialize()",
                      .value = fmt::format("{}, it had {}", parameter_groups.size(), known),
                      .remedy = "give it all its groups before, and call initialize() again"});
  }
  for (std::size_t i = 0; i < parameter_groups.size() && !options_.update; ++i) {
    core().parameter_groups().at(i) =
        optimizer_options(optimizer_kind_, py::dict(parameter_groups[i]));
  }
}

py::dict EngineCore::step(const py::list& parameter_groups, bool waits) {
  take_parameter_groups(parameter_groups);
  StepResult result;
  {
    const py::gil_scoped_release others_run;
    result = core().step();
    if (waits) core().wait_for_parameters();
  }
  if (result.boundary) hooks_->forget_deferred();
  if (result.applied && !waits) arriving_->begin();
  return result_of(result);
}

void EngineCore::finish_step() {
  {
    const py::gil_scoped_release others_run;
    core().quiesce();
  }
  arriving_->end();
}

bool EngineCore::enter_full(const std::vector<std::size_t>& units, bool writes) {
  core();  // which says so where the engine is gone
  if (hooks_->is_under_way()) {
    for (const std::size_t unit : units) hooks_->use_outside(unit);
    return false;
  }
  const py::gil_scoped_release others_run;
  if (writes) saves_->wait();
  for (const std::size_t unit : units) core().gather_full(unit, writes);
  return true;
}

void EngineCore::leave_full(const std::vector<std::size_t>& units, Written written, int from) {
  const py::gil_scoped_release others_run;
  for (const std::size_t unit : units) core().release_full(unit, written, from);
}

namespace {

// The last reference to it may go where Python's lock is not held.
std::shared_ptr<py::object> kept_anywhere(py::object call) {
  return {new py::object(std::move(call)), [](py::object* object) {
            const py::gil_scoped_acquire lock;
            delete object;
          }};
}

std::function<void(bool)> told_of_backward(py::object call) {
  if (call.is_none()) return {};
  return [kept = kept_anywhere(std::move(call))](bool shown) {
    const py::gil_scoped_acquire lock;
    (*kept)(shown);
  };
}

// Called from inside step(), which has given the lock of Python away.
std::function<void(const std::vector<at::Tensor>&)> update_by(py::object call) {
  if (call.is_none()) return {};
  return [kept = kept_anywhere(std::move(call))](const std::vector<at::Tensor>& gradients) {
    const py::gil_scoped_acquire lock;
    py::list all;
    for (const at::Tensor& each : gradients) {
      all.append(each.defined() ? wrap(each) : py::object(py::none()));
    }
    (*kept)(all);
  };
}

std::unique_ptr<EngineCore> make_engine_core(const PythonConfig& config,
                                             std::shared_ptr<Communicator> comm,
                                             const CoreSettings& settings) {
  EngineOptions options = engine_options_of(config, settings);
  options.parameter_groups.clear();
  for (const py::handle group : settings.parameter_groups) {
    options.parameter_groups.push_back(
        optimizer_options(settings.optimizer_kind, py::reinterpret_borrow<py::dict>(group)));
  }
  if (options.parameter_groups.empty()) options.parameter_groups.emplace_back(SgdOptions{});
  options.parameter_group_of = [ids = settings.group_of](const std::string& name) {
    const auto found = ids.find(name);
    return found == ids.end() ? 0 : found->second;
  };
  options.update = update_by(settings.update);
  options.after_backward = told_of_backward(settings.after_backward);
  options.shows_gradients = true;
  options.empties_released = true;
  options.keeps_dtypes = settings.keeps_dtypes;
  return std::make_unique<EngineCore>(std::move(options), std::move(comm), settings.optimizer_kind);
}

}  // namespace

void bind_engine_core(py::module_& module) {
  py::class_<CoreSettings>(module, "CoreSettings")
      .def(py::init<>())
      .def_readwrite("device", &CoreSettings::device)
      .def_readwrite("threads", &CoreSettings::threads)
      .def_readwrite("communicates_beside_compute", &CoreSettings::communicates_beside_compute)
      .def_readwrite("ranks", &CoreSettings::ranks)
      .def_readwrite("ranks_on_host", &CoreSettings::ranks_on_host)
      .def_readwrite("parameters", &CoreSettings::parameters)
      .def_readwrite("accumulation_steps", &CoreSettings::accumulation_steps)
      .def_readwrite("keeps_dtypes", &CoreSettings::keeps_dtypes)
      .def_readwrite("optimizer_kind", &CoreSettings::optimizer_kind)
      .def_readwrite("parameter_groups", &CoreSettings::parameter_groups)
      .def_readwrite("group_of", &CoreSettings::group_of)
      .def_readwrite("update", &CoreSettings::update)
      .def_readwrite("after_backward", &CoreSettings::after_backward);

  py::native_enum<Written>(module, "Written", "enum.Enum")
      .value("NOTHING", Written::nothing)
      .value("SOME", Written::some)
      .value("ALL", Written::all)
      .finalize();

  py::class_<EngineCore> type(module, "EngineCore");
  type.def(py::init(&make_engine_core), py::arg("config"), py::arg("communicator"),
           py::arg("settings"))
      .def("add_unit", &EngineCore::add_unit)
      .def("finish", &EngineCore::finish)
      .def("close", &EngineCore::close)
      .def("make_hook", &EngineCore::make_hook, py::keep_alive<0, 1>())
      .def("backward", &EngineCore::backward)
      .def("scale", &EngineCore::scale)
      .def("reduce_gradients",
           [](EngineCore& engine) {
             const py::gil_scoped_release others_run;
             engine.core().reduce_gradients();
           })
      .def("show_local",
           [](EngineCore& engine, bool on) {
             const py::gil_scoped_release others_run;
             engine.core().show_local(on);
           })
      .def("take_parameter_groups", &EngineCore::take_parameter_groups)
      .def("step", &EngineCore::step, py::arg("parameter_groups"), py::arg("waits"))
      .def("finish_step", &EngineCore::finish_step)
      .def("enter_full", &EngineCore::enter_full, py::arg("units"), py::arg("writes") = false)
      .def("leave_full", &EngineCore::leave_full, py::arg("units"),
           py::arg("written") = Written::nothing, py::arg("from_rank") = -1)
      .def("empty_gather_pool",
           [](EngineCore& engine) {
             const py::gil_scoped_release others_run;
             engine.core().empty_gather_pool();
           })
      .def("is_in_forward", [](EngineCore& engine) { return engine.hooks().is_in_forward(); })
      .def("abandon_forward", [](EngineCore& engine) { engine.hooks().abandon(); })
      .def("use_outside",
           [](EngineCore& engine, std::size_t unit) { return engine.hooks().use_outside(unit); })
      .def("set_boundary",
           [](EngineCore& engine, std::optional<bool> boundary) {
             const py::gil_scoped_release others_run;
             engine.core().set_boundary(boundary);
           })
      .def("set_accumulation_steps",
           [](EngineCore& engine, std::int64_t steps) {
             const py::gil_scoped_release others_run;
             engine.core().set_accumulation_steps(steps);
           })
      .def("at_boundary", [](EngineCore& engine) { return engine.core().at_boundary(); })
      .def("loss_scale", [](EngineCore& engine) { return engine.core().scaler().scale(); })
      .def("is_resident",
           [](EngineCore& engine, std::size_t unit) { return engine.core().unit(unit).resident(); })
      .def("updates_on_host",
           [](EngineCore& engine) {
             return engine.core().tiers().first_host_unit < engine.core().units();
           })
      .def("without_gradient", [](EngineCore& engine) { return engine.core().without_gradient(); });
  bind_engine_states(type);
  bind_engine_offload(type);
  bind_full_weights(type);
  bind_engine_checkpoint(module, type);
}

}  // namespace zeroshard::python
