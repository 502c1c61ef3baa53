#include "python/bindings/forward_hooks.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "python/bindings/python_tensors.h"
#include "zeroshard/base/check.h"

namespace zeroshard::python {
namespace {

std::vector<at::Tensor*> pointers(std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor*> all;
  for (at::Tensor& tensor : tensors) all.push_back(&tensor);
  return all;
}

bool exception_is_handled() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_GetExcInfo(&type, &value, &traceback);
  const bool handled = value != nullptr && value != Py_None;
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return handled;
}

int calls_under_way(const py::object& module) {
  return py::module_::import("zeroshard.calls_under_way")
      .attr("calls_under_way")(module)
      .cast<int>();
}

}  // namespace

ForwardHooks::ForwardHooks(Core& core)
    : core_(core), active_(core.units()), deferred_(core.units()) {}

py::object ForwardHooks::before(const py::object& module, std::size_t unit,
                                const py::tuple& arguments, const py::dict& keywords) {
  const bool grad = at::GradMode::is_enabled();
  if (grad && awaits_recompute()) {
    const py::gil_scoped_release others_run;
    core_.begin_recompute();
  }
  const bool recomputed = core_.recomputes();
  if (unit == kNoUnit && is_in_forward() && calls_under_way(module) < 2) abandon();
  if (frames_.empty()) {
    pass_trains_ = grad && !recomputed;
    deferred_in_pass_.clear();
  }
  if (unit == kNoUnit) {
    frames_.push_back({});
    return py::none();
  }
  enter(unit, recomputed, grad);
  frames_.push_back(
      {.unit = unit, .recomputed = recomputed, .use = use_of(unit, recomputed, grad)});
  ++active_[unit];
  return marked(frames_.back(), arguments, keywords);
}

// A forward without gradients inside a training pass is a checkpoint's: it trains all the same.
void ForwardHooks::enter(std::size_t unit, bool recomputed, bool grad) {
  const py::gil_scoped_release others_run;
  core_.before_forward(unit, !recomputed && (grad || pass_trains_));
}

// With reentrant checkpointing the graph is made when the unit is computed again, in backward;
// until then the engine knows that it is to come. With the other kind the first graph stays.
Use ForwardHooks::use_of(std::size_t unit, bool recomputed, bool grad) {
  std::vector<Use>& deferred = deferred_[unit];
  if (!recomputed && grad) return std::make_shared<UnitUse>(link(unit));
  if (!recomputed && pass_trains_) {
    deferred.push_back(std::make_shared<UnitUse>(link(unit)));
    deferred_in_pass_.push_back(deferred.back());
  }
  if (!recomputed || !grad || deferred.empty()) return {};
  Use use = std::move(deferred.back());
  deferred.pop_back();
  return use;
}

bool ForwardHooks::awaits_recompute() const {
  return std::ranges::any_of(deferred_, [](const std::vector<Use>& uses) { return !uses.empty(); });
}

py::object ForwardHooks::marked(Frame& frame, const py::tuple& arguments,
                                const py::dict& keywords) {
  if (!frame.use) return py::none();
  std::vector<py::object> objects = differentiable_in(arguments);
  for (py::object& each : differentiable_in(keywords)) objects.push_back(std::move(each));
  std::vector<at::Tensor> tensors;
  for (const py::object& each : objects) tensors.push_back(tensor_of(each));
  frame.inputs = mark_inputs(frame.use, pointers(tensors));
  if (objects.empty()) return py::none();
  std::vector<Replacement> replacements;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    replacements.push_back({objects[i].ptr(), wrap(tensors[i])});
  }
  return py::make_tuple(replaced(arguments, replacements), replaced(keywords, replacements));
}

void ForwardHooks::after(py::handle output) {
  ZS_CHECK(!frames_.empty(), "a module ended that had not begun");
  Frame frame = std::move(frames_.back());
  frames_.pop_back();
  const bool ends_pass = frames_.empty() && pass_trains_;
  std::vector<at::Tensor> outputs;
  if (frame.use || !frame.outside.empty() || ends_pass) outputs = tensors_in(output);
  if (ends_pass) {
    open_backward_at(pointers(outputs), core_.weak());
    follow_graph_of(pointers(outputs), std::exchange(deferred_in_pass_, {}));
  }
  if (frame.use) mark_outputs(frame.use, pointers(outputs));
  for (const std::size_t unit : frame.outside) {
    if (at::GradMode::is_enabled() && !core_.recomputes()) {
      const Use use = std::make_shared<UnitUse>(link(unit));
      use->end_by_gradients();
      mark_outputs(use, pointers(outputs));
    }
    leave(unit);
  }
  if (frame.unit != kNoUnit) leave(frame.unit);
  if (!output.is_none() || !exception_is_handled()) {
    return carry_changes_over(frame.use, std::move(frame.inputs));
  }
  const py::gil_scoped_release others_run;
  core_.abandon_forward();
}

// The core's lock is never waited for with Python's held: an optimizer of the user's needs both.
void ForwardHooks::leave(std::size_t unit) {
  --active_[unit];
  const py::gil_scoped_release others_run;
  core_.after_forward(unit);
}

bool ForwardHooks::use_outside(std::size_t unit) {
  if (closed_) return false;
  if (is_active(unit)) return true;
  const bool recomputed = core_.recomputes();
  if (frames_.empty() && !recomputed) return false;
  enter(unit, recomputed, at::GradMode::is_enabled());
  // In backward it stays to the end: what was saved of it has no other keeper.
  if (recomputed || frames_.empty()) return true;
  frames_.back().outside.push_back(unit);
  ++active_[unit];
  return true;
}

void ForwardHooks::abandon() {
  for (; !frames_.empty(); frames_.pop_back()) {
    const Frame& frame = frames_.back();
    for (const std::size_t unit : frame.outside) leave(unit);
    if (frame.unit == kNoUnit) continue;
    // Where it was computed again its backward has let it go.
    frame.recomputed ? void(--active_[frame.unit]) : leave(frame.unit);
  }
  forget_deferred();
  ++interrupts_;
  const py::gil_scoped_release others_run;
  core_.abandon_forward();
}

void ForwardHooks::close() {
  closed_ = true;
  frames_.clear();
  forget_deferred();
}

void ForwardHooks::forget_deferred() {
  deferred_in_pass_.clear();
  for (std::vector<Use>& uses : deferred_) uses.clear();
}

py::object ModuleHook::before(const py::object& module, const py::tuple& arguments,
                              const py::dict& keywords) {
  if (hooks_ == nullptr || hooks_->is_closed()) return py::none();
  const bool opens = !guards_ || !hooks_->is_active(unit_);
  py::object result = opens ? hooks_->before(module, unit_, arguments, keywords) : py::none();
  forget_interrupted();
  opened_.push_back(opens);
  return result;
}

// Called after an exception, too; then perhaps without before() having come to its end.
void ModuleHook::after(const py::object& /*module*/, const py::tuple& /*arguments*/,
                       const py::object& output) {
  if (hooks_ != nullptr) forget_interrupted();
  if (opened_.empty() || hooks_->is_closed()) return;
  const bool opened = opened_.back();
  opened_.pop_back();
  if (opened) hooks_->after(output);
}

void ModuleHook::forget_interrupted() {
  if (std::exchange(interrupts_, hooks_->interrupts()) != hooks_->interrupts()) opened_.clear();
}

void bind_forward_hooks(py::module_& module) {
  py::class_<ModuleHook>(module, "ModuleHook")
      .def("before", &ModuleHook::before)
      .def("after", &ModuleHook::after)
      .def("__deepcopy__", [](const ModuleHook& hook, const py::dict&) { return hook.inert(); })
      .def("__reduce__", [module](const ModuleHook&) {
        return py::make_tuple(module.attr("inert_hook"), py::tuple());
      });
  module.def("inert_hook", [] { return std::make_unique<ModuleHook>(nullptr, kNoUnit, false); });
}

}  // namespace zeroshard::python
