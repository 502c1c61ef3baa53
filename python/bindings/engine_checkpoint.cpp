// What an engine has, into a checkpoint and out of one. What Python has beside (buffers, states of
// an optimizer of its own) it adds itself.
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "python/bindings/checkpoint_files.h"
#include "zeroshard/base/check.h"
#include "zeroshard/base/memory_room.h"
#include "zeroshard/checkpoint/model_states.h"
#include "zeroshard/engine/core_states.h"

namespace zeroshard::python {
namespace {

// An engine's states, and behind them tensors of Python's, which stay as they are until all is
// read.
class StatesAndMore final : public TensorStates {
 public:
  // Waits for updates that are under way.
  explicit StatesAndMore(Core& core)
      : engine_(core), tensors_(engine_.tensors()), owned_(engine_.owned()) {
    tensors_.push_back({.name = "of Python", .trained = false});  // what no update changes
  }

  void drop_frozen() {
    std::erase_if(owned_, [&](const HeldState& state) { return !tensors_[state.tensor].trained; });
  }
  void add(const Span& elements, const at::Tensor& values) {
    owned_.push_back({.tensor = tensors_.size() - 1, .elements = elements});
    more_.push_back(values);
  }

  const std::vector<TensorRecord>& tensors() const override { return tensors_; }
  const std::vector<HeldState>& owned() const override { return owned_; }
  const std::vector<HeldState>& held() const override { return engine_.held(); }

  void read(const HeldState& state, const Span& elements, void* into) const override {
    if (state.tensor + 1 != tensors_.size()) return engine_.read(state, elements, into);
    const std::size_t place = static_cast<std::size_t>(&state - owned_.data());
    const at::Tensor& values = more_[place - (owned_.size() - more_.size())];
    const at::NoGradGuard no_grad;
    at::from_blob(into, {elements.size()}, at::TensorOptions(values.scalar_type()))
        .copy_(values.narrow(0, elements.begin() - state.elements.begin(), elements.size()));
  }
  std::int64_t write(const HeldState& state, const Span& elements, const void* from,
                     DType dtype) override {
    return engine_.write(state, elements, from, dtype);
  }
  void set_updates(std::size_t tensor, std::int64_t updates) override {
    engine_.set_updates(tensor, updates);
  }

  void begin_reading(const std::set<std::size_t>& units) override { engine_.begin_reading(units); }
  void begin_reading_frozen() override { engine_.begin_reading_frozen(); }
  void end_reading(std::size_t unit) override { engine_.end_reading(unit); }
  void end_reading() noexcept override { engine_.end_reading(); }
  std::chrono::nanoseconds waited() const override { return engine_.waited(); }

 private:
  CoreStates engine_;
  std::vector<TensorRecord> tensors_;
  std::vector<HeldState> owned_;
  std::vector<at::Tensor> more_;  // the last ones of owned_
};

SaveMode mode_named(const std::string& name) {
  if (name == "foreground") return SaveMode::foreground;
  return name == "snapshot" ? SaveMode::snapshot : SaveMode::stream;
}

// One save of an engine, from its beginning to the moment when nothing is left to be said.
class EngineSave {
 public:
  // Waits for updates that are under way.
  EngineSave(EngineCore& engine, bool exclude_frozen)
      : engine_(engine),
        states_(std::make_shared<StatesAndMore>(engine.core())),
        contents_(contents_of(CoreStates(engine.core()))) {
    if (exclude_frozen) drop_frozen();
    for (std::size_t i = 0; i < contents_.tensors.size(); ++i) {
      index_.emplace(contents_.tensors[i].name, i);
    }
  }

  SaveContents& contents() { return contents_; }
  const std::map<std::string, std::size_t>& index() const { return index_; }

  // Which elements of a tensor this rank saves.
  py::tuple owned(std::size_t tensor) const {
    for (const StateToSave& state : contents_.states) {
      if (state.tensor != tensor || state.state != kValueState) continue;
      return py::make_tuple(state.elements.begin(), state.elements.end());
    }
    return py::make_tuple(0, 0);
  }

  // A flat tensor: the elements of a state from `begin` on.
  void add_state(std::size_t tensor, const std::string& state, const std::string& dtype,
                 std::int64_t begin, const at::Tensor& values) {
    const std::optional<StoredDType> stored = StoredDType::of(dtype);
    ZS_CHECK(stored && values.dim() == 1 &&
                 stored->bytes() == static_cast<std::uint64_t>(values.element_size()),
             "these are no flat elements of this dtype");
    const Span elements(begin, begin + values.numel());
    contents_.states.push_back(
        {.tensor = tensor, .state = state, .dtype = *stored, .elements = elements});
    states_->add(elements, values);
  }

  // What a copy of this rank's states takes.
  std::uint64_t copied_bytes() const { return snapshot_bytes(*states_); }

  // Once. Collective.
  void run(const std::string& root, const std::string& tag, bool latest, std::size_t keep,
           const std::string& mode) {
    const py::gil_scoped_release others_run;
    engine_.saves().save(
        engine_.core(), engine_.comm(),
        {.root = root, .tag = tag, .latest = latest, .keep = keep, .mode = mode_named(mode)},
        std::move(states_), std::move(contents_));
  }

 private:
  // Their states come last (TensorStates::owned), so that those before keep their numbers.
  void drop_frozen() {
    std::vector<std::size_t> moved;
    std::vector<TensorToSave> kept;
    const std::vector<TensorToSave> all = std::move(contents_.tensors);
    for (const TensorToSave& tensor : all) {
      moved.push_back(kept.size());
      if (tensor.kind == TensorKind::trained) kept.push_back(tensor);
    }
    std::erase_if(contents_.states, [&](const StateToSave& state) {
      return all[state.tensor].kind != TensorKind::trained;
    });
    for (StateToSave& state : contents_.states) state.tensor = moved[state.tensor];
    contents_.tensors = std::move(kept);
    states_->drop_frozen();
  }

  EngineCore& engine_;
  std::shared_ptr<StatesAndMore> states_;
  SaveContents contents_;
  std::map<std::string, std::size_t> index_;
};

// Of the save that was under way: where it is, its bytes, and the seconds that it took and that
// training waited for it.
py::dict finish_save(EngineCore& engine) {
  SaveReport report;
  {
    const py::gil_scoped_release others_run;
    report = engine.saves().finish();
  }
  const auto seconds = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
  };
  py::dict all;
  all["tag"] = report.tag;
  all["bytes"] = report.bytes;
  all["took"] = seconds(report.took);
  all["paused"] = seconds(report.paused);
  return all;
}

// Of each parameter its name, shape, whether it is trained, and the names of its states.
py::list tensor_records(EngineCore& engine) {
  std::vector<TensorRecord> tensors;
  {
    const py::gil_scoped_release others_run;  // updates that are under way may need the lock
    tensors = CoreStates(engine.core()).tensors();
  }
  py::list all;
  for (const TensorRecord& tensor : tensors) {
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
      .wants = [&](const std::string& tensor) { return names.contains(tensor); },
      .memory = engine.saves().staging(engine.core())};
  LoadReport report = load_states(reader.files(), states, options);
  return {std::move(report.missing), report.settled_ties};
}

}  // namespace

void bind_engine_checkpoint(py::module_& module, py::class_<EngineCore>& type) {
  py::class_<EngineSave>(module, "EngineSave")
      .def(py::init<EngineCore&, bool>(), py::arg("core"), py::arg("exclude_frozen") = false,
           py::keep_alive<1, 2>(), py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("contents", &EngineSave::contents,
                             py::return_value_policy::reference_internal)
      .def_property_readonly("index", &EngineSave::index)
      .def("owned", &EngineSave::owned)
      .def("add_state", &EngineSave::add_state, py::arg("tensor"), py::arg("state"),
           py::arg("dtype"), py::arg("begin"), py::arg("values"))
      .def_property_readonly("copied_bytes", &EngineSave::copied_bytes)
      .def("run", &EngineSave::run, py::arg("root"), py::arg("tag"), py::arg("latest"),
           py::arg("keep") = 0, py::arg("mode") = "foreground");
  type.def("tensor_records", &tensor_records)
      .def("load_checkpoint", &load, py::arg("reader"), py::arg("names"),
           py::arg("optimizer_states"), py::arg("fp32_masters"))
      .def("is_saving", [](EngineCore& engine) { return engine.saves().is_under_way(); })
      .def("save_is_over",
           [](EngineCore& engine) {
             const py::gil_scoped_release others_run;
             return engine.saves().is_over(engine.comm());
           })
      .def("wait_for_save",
           [](EngineCore& engine) {
             const py::gil_scoped_release others_run;
             engine.saves().wait();
           })
      .def("finish_save", &finish_save);
  module.def("host_room", [] {
    const std::optional<MemoryRoom> room = memory_room();
    return room ? std::optional(room->bytes) : std::nullopt;
  });
}

}  // namespace zeroshard::python
