// What a model's modules call when they run: the Python side of unit_hooks.h. A unit's module has a
// hook; so has every other module that owns parameters which may be released, since it may be
// called without its unit (then it opens the unit by itself).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <pybind11/pybind11.h>

#include "zeroshard/engine/core.h"
#include "zeroshard/engine/unit_hooks.h"

namespace zeroshard::python {

namespace py = pybind11;

constexpr std::size_t kNoUnit = static_cast<std::size_t>(-1);

// One model's modules under way, the innermost last. Forwards run one at a time: autograd's threads
// compute again only while the main one waits for them.
class ForwardHooks {
 public:
  explicit ForwardHooks(Core& core);

  // Returns what the module is to be called with, or None where that stays as it is.
  py::object before(const py::object& module, std::size_t unit, const py::tuple& arguments,
                    const py::dict& keywords);
  void after(py::handle output);

  bool is_active(std::size_t unit) const { return unit != kNoUnit && active_[unit] > 0; }
  // Parameters that are read while another module runs: their unit stays until that module ends,
  // and comes back for its backward. Returns false where no module runs.
  bool use_outside(std::size_t unit);
  // Whether a module runs, in forward or once more in backward.
  bool is_under_way() const { return !closed_ && (!frames_.empty() || core_.recomputes()); }
  // Whether a module runs in forward, as far as hooks have said.
  bool is_in_forward() const { return !closed_ && !frames_.empty() && !core_.recomputes(); }
  // An interrupt has ended all modules under way; torch tells hooks of other exceptions only.
  void abandon();
  int interrupts() const { return interrupts_; }
  // The engine goes: from now on modules run as if it had never been.
  void close();
  bool is_closed() const { return closed_; }
  // Uses that were to be computed again and were not, once their step is over.
  void forget_deferred();

 private:
  struct Frame {
    std::size_t unit = kNoUnit;
    bool recomputed = false;  // in backward
    Use use = {};
    std::vector<MarkedInput> inputs = {};
    std::vector<std::size_t> outside = {};
  };

  UnitLink link(std::size_t unit) const { return {core_.weak(), unit}; }
  void enter(std::size_t unit, bool recomputed, bool grad);
  void leave(std::size_t unit);
  Use use_of(std::size_t unit, bool recomputed, bool grad);
  bool awaits_recompute() const;
  static py::object marked(Frame& frame, const py::tuple& arguments, const py::dict& keywords);

  Core& core_;
  std::vector<Frame> frames_;
  std::vector<int> active_;                 // by unit: frames of it
  std::vector<std::vector<Use>> deferred_;  // by unit: computed without a graph, for now
  std::vector<Use> deferred_in_pass_;       // of these, the ones of the pass under way
  bool closed_ = false;
  bool pass_trains_ = false;  // of the outermost module under way
  int interrupts_ = 0;
};

// What one module holds.
class ModuleHook {
 public:
  ModuleHook(std::shared_ptr<ForwardHooks> hooks, std::size_t unit, bool guards)
      : hooks_(std::move(hooks)), unit_(unit), guards_(guards) {}

  py::object before(const py::object& module, const py::tuple& arguments, const py::dict& keywords);
  void after(const py::object& module, const py::tuple& arguments, const py::object& output);
  // Of a module that is copied: the copy is not the engine's.
  std::unique_ptr<ModuleHook> inert() const {
    return std::make_unique<ModuleHook>(nullptr, unit_, guards_);
  }

 private:
  void forget_interrupted();

  const std::shared_ptr<ForwardHooks> hooks_;
  const std::size_t unit_;
  const bool guards_;         // opens the unit only where nothing else has
  std::vector<bool> opened_;  // by call under way
  int interrupts_ = 0;        // that this hook knows of
};

void bind_forward_hooks(py::module_& module);

}  // namespace zeroshard::python
