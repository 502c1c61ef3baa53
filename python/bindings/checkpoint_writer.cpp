// Writes a checkpoint whose states Python has somewhere: piece by piece, as they fit into staging.
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "python/bindings/checkpoint_files.h"
#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/checkpoint_save.h"
#include "zeroshard/checkpoint/save_contents.h"
#include "zeroshard/comm/single.h"

namespace zeroshard::python {

PythonCopy::PythonCopy(const SaveContents& contents, py::function copy) : copy_(std::move(copy)) {
  for (const StateToSave& state : contents.states) widths_.push_back(state.dtype.bytes());
}

void PythonCopy::operator()(std::size_t state, const Span& elements, std::byte* into) {
  const py::gil_scoped_acquire python;
  try {
    const auto bytes = static_cast<py::ssize_t>(widths_[state]) * elements.size();
    copy_(state, elements.begin(), elements.end(), py::memoryview::from_memory(into, bytes));
  } catch (...) {
    raised_ = std::current_exception();
    throw;
  }
}

void PythonCopy::rethrow() const {
  if (raised_) std::rethrow_exception(raised_);
}

namespace {

StoredDType dtype_named(const std::string& name) {
  if (const std::optional<StoredDType> dtype = StoredDType::of(name)) return *dtype;
  throw ConfigError({.what = "no dtype of safetensors", .value = name});
}

TensorKind kind_named(const std::string& name) {
  for (const TensorKind kind : {TensorKind::trained, TensorKind::frozen, TensorKind::buffer}) {
    if (name_of(kind) == name) return kind;
  }
  throw ConfigError({.what = "no kind of tensor", .value = name});
}

std::size_t add_tensor(SaveContents& contents, const std::string& name, const std::string& kind,
                       const std::string& dtype, const std::vector<std::int64_t>& shape,
                       std::int64_t updates, const std::map<std::string, double>& scalars) {
  contents.tensors.push_back({.name = name,
                              .kind = kind_named(kind),
                              .dtype = dtype_named(dtype),
                              .shape = shape,
                              .updates = updates,
                              .scalars = scalars});
  return contents.tensors.size() - 1;
}

void add_state(SaveContents& contents, std::size_t tensor, const std::string& state,
               const std::string& dtype, std::int64_t begin, std::int64_t end) {
  contents.states.push_back(
      {.tensor = tensor, .state = state, .dtype = dtype_named(dtype), .elements = {begin, end}});
}

void add_blob(SaveContents& contents, const std::string& name, const py::bytes& bytes,
              bool of_this_rank) {
  contents.blobs.push_back({.name = name, .of_this_rank = of_this_rank, .bytes = bytes});
}

void write_checkpoint(const std::string& root, const std::string& tag, const SaveContents& contents,
                      const py::function& copy, bool latest) {
  PythonCopy from(contents, copy);
  const py::gil_scoped_release others_run;
  try {
    const std::unique_ptr<Communicator> alone = make_single_communicator();
    SaveFolder folder(*alone, root);
    CheckpointSave save(folder, {.tag = tag, .latest = latest}, contents, *alone);
    save.run(std::ref(from), SaveStaging(), *alone);
  } catch (const Error&) {
    from.rethrow();
    throw;
  }
}

}  // namespace

void bind_checkpoint_writer(py::module_& module) {
  py::class_<SaveContents>(module, "SaveContents")
      .def(py::init<>())
      .def("add_tensor", &add_tensor, py::arg("name"), py::arg("kind"), py::arg("dtype"),
           py::arg("shape"), py::arg("updates") = 0,
           py::arg("scalars") = std::map<std::string, double>())
      .def("add_state", &add_state, py::arg("tensor"), py::arg("state"), py::arg("dtype"),
           py::arg("begin"), py::arg("end"))
      .def("add_blob", &add_blob, py::arg("name"), py::arg("bytes"),
           py::arg("of_this_rank") = false)
      .def("set_scalars",
           [](SaveContents& contents, std::size_t tensor, std::map<std::string, double> scalars) {
             contents.tensors.at(tensor).scalars = std::move(scalars);
           })
      .def("set_run", [](SaveContents& contents, const std::string& name,
                         const RunNumbers::Number& value) { contents.run.set(name, value); })
      .def("set_alias", [](SaveContents& contents, const std::string& alias,
                           const std::string& name) { contents.aliases[alias] = name; })
      .def("set_document", [](SaveContents& contents, const std::string& name,
                              const std::string& text) { contents.documents[name] = text; })
      .def("set_written_by",
           [](SaveContents& contents, const std::string& name, const std::string& version) {
             contents.written_by[name] = version;
           });
  module.def("write_checkpoint", &write_checkpoint, py::arg("root"), py::arg("tag"),
             py::arg("contents"), py::arg("copy"), py::arg("latest") = true);
}

}  // namespace zeroshard::python
