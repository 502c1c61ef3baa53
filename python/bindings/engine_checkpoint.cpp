// What an engine has, into a checkpoint and out of one. What Python has beside (buffers, states of
// an optimizer of its own) it adds itself.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "python/bindings/checkpoint_files.h"
#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/checkpoint_save.h"
#include "zeroshard/checkpoint/model_states.h"
#include "zeroshard/engine/core_states.h"

namespace zeroshard::python {
namespace {

// One save of an engine, from its beginning to its end.
class EngineSave {
 public:
  // Waits for updates that are under way.
  EngineSave(EngineCore& engine, bool exclude_frozen)
      : engine_(engine), states_(engine.core()), contents_(contents_of(states_)) {
    if (exclude_frozen) drop_frozen();
    own_ = contents_.states.size();
    for (std::size_t i = 0; i < contents_.tensors.size(); ++i) {
      index_.emplace(contents_.tensors[i].name, i);
    }
  }

  SaveContents& contents() { return contents_; }
  const std::map<std::string, std::size_t>& index() const { return index_; }

  // Which elements of a tensor this rank saves.
  py::tuple owned(std::size_t tensor) const {
    for (std::size_t i = 0; i < own_; ++i) {
      const StateToSave& state = contents_.states[i];
      if (state.tensor != tensor || state.state != kValueState) continue;
      return py::make_tuple(state.elements.begin(), state.elements.end());
    }
    return py::make_tuple(0, 0);
  }

  // `copy` brings what Python has added. Collective.
  void run(const std::string& root, const std::string& tag, bool latest, const py::function& copy) {
    PythonCopy from_python(contents_, own_, copy);
    const CopyState from_engine = copy_of(states_);
    const auto both = [&](std::size_t state, const Span& elements, std::byte* into) {
      state < own_ ? from_engine(state, elements, into) : from_python(state, elements, into);
    };
    const py::gil_scoped_release others_run;
    try {
      SaveFolder folder(engine_.comm(), root);
      CheckpointSave save(folder, {.tag = tag, .latest = latest}, contents_, engine_.comm());
      save.run(both, SaveStaging(), engine_.comm());
    } catch (const Error&) {
      from_python.rethrow();
      throw;
    }
  }

 private:
  // Their states come last (TensorStates::owned), so that those before keep their numbers.
  void drop_frozen() {
    std::vector<std::size_t> moved;
    std::vector<TensorToSave> kept;
    for (TensorToSave& tensor : contents_.tensors) {
      moved.push_back(kept.size());
      if (tensor.kind == TensorKind::trained) kept.push_back(std::move(tensor));
    }
    std::erase_if(contents_.states, [&](const StateToSave& state) {
      return !states_.tensors()[state.tensor].trained;
    });
    for (StateToSave& state : contents_.states) state.tensor = moved[state.tensor];
    contents_.tensors = std::move(kept);
  }

  EngineCore& engine_;
  CoreStates states_;
  SaveContents contents_;
  std::size_t own_ = 0;  // states of the engine's; Python's follow
  std::map<std::string, std::size_t> index_;
};

// Of each parameter its name, shape, whether it is trained, and the names of its states.
py::list tensor_records(EngineCore& engine) {
  const CoreStates states(engine.core());
  py::list all;
  for (const TensorRecord& tensor : states.tensors()) {
    all.append(py::make_tuple(tensor.name, py::tuple(py::cast(tensor.shape)), tensor.trained,
                              tensor.states));
  }
  return all;
}

// Returns what was wanted and is not there (tensors, or "exp_avg of h.0.weight"), and how many of
// this rank's masters were ties that gave their last bit away. No message.
std::pair<std::vector<std::string>, std::int64_t> load(EngineCore& engine,
                                                       const CheckpointReader& reader,
                                                       const std::set<std::string>& names,
                                                       bool optimizer_states, bool fp32_masters) {
  const py::gil_scoped_release others_run;
  CoreStates states(engine.core());
  const LoadOptions options{
      .optimizer_states = optimizer_states,
      .strict = false,
      .fp32_masters = fp32_masters,
      .wants = [&](const std::string& tensor) { return names.contains(tensor); }};
  LoadReport report = load_states(reader.files(), states, options);
  return {std::move(report.missing), report.settled_ties};
}

}  // namespace

void bind_engine_checkpoint(py::module_& module, py::class_<EngineCore>& type) {
  py::class_<EngineSave>(module, "EngineSave")
      .def(py::init<EngineCore&, bool>(), py::arg("core"), py::arg("exclude_frozen") = false,
           py::keep_alive<1, 2>())
      .def_property_readonly("contents", &EngineSave::contents,
                             py::return_value_policy::reference_internal)
      .def_property_readonly("index", &EngineSave::index)
      .def("owned", &EngineSave::owned)
      .def("run", &EngineSave::run, py::arg("root"), py::arg("tag"), py::arg("latest"),
           py::arg("copy"));
  type.def("tensor_records", &tensor_records)
      .def("load_checkpoint", &load, py::arg("reader"), py::arg("names"),
           py::arg("optimizer_states"), py::arg("fp32_masters"));
}

}  // namespace zeroshard::python
