// What lies in a checkpoint of ours, and any range of it.
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "python/bindings/checkpoint_files.h"
#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/checkpoint_folder.h"
#include "zeroshard/checkpoint/state_files.h"

namespace zeroshard::python {

CheckpointReader::CheckpointReader(const std::string& folder, const std::string& tag)
    : files_(StateFiles::open_checkpoint(folder, tag)) {
  reader_.emplace(files_.reader());
  reader_->check_files();
}

void CheckpointReader::read_ahead(EngineCore& engine) {
  reader_.emplace(files_.reader({.memory = engine.saves().staging(engine.core())}));
}

const StoredState& CheckpointReader::state(const std::string& name,
                                           const std::string& state) const {
  const StoredTensor* const tensor = files_.find(name);
  if (tensor != nullptr) {
    const auto found = tensor->states.find(state);
    if (found != tensor->states.end()) return found->second;
  }
  throw ConfigError(
      {.what = "the checkpoint has no such state",
       .value = fmt::format("{} of {}, in {}", state, name, files_.folder().string())});
}

namespace {

py::dict described(const StoredTensor& tensor) {
  py::dict states;
  for (const auto& [name, state] : tensor.states)
    states[py::str(name)] = std::string(state.dtype.name());
  py::dict all;
  all["name"] = tensor.name;
  all["kind"] = std::string(name_of(tensor.kind));
  all["dtype"] = std::string(tensor.dtype.name());
  all["shape"] = py::tuple(py::cast(tensor.shape));
  all["updates"] = tensor.updates;
  all["scalars"] = tensor.scalars;
  all["states"] = states;
  return all;
}

py::list tensors(const CheckpointReader& reader) {
  py::list all;
  for (const StoredTensor& tensor : reader.files().manifest().tensors)
    all.append(described(tensor));
  return all;
}

py::dict run_numbers(const CheckpointReader& reader) {
  py::dict all;
  for (const auto& [name, number] : reader.files().manifest().run.all()) {
    all[py::str(name)] = std::visit([](auto value) { return py::object(py::cast(value)); }, number);
  }
  return all;
}

// As many elements of a state, which is stored in `dtype`, from `begin` on, as a flat tensor has:
// of any dtype and on any device, through one chunk.
void read_into(CheckpointReader& reader, const std::string& name, const std::string& state,
               std::int64_t begin, at::ScalarType dtype, const at::Tensor& into) {
  const StoredState& stored = reader.state(name, state);
  const auto width = static_cast<std::int64_t>(stored.dtype.bytes());
  ZS_CHECK(into.dim() == 1 && static_cast<std::int64_t>(c10::elementSize(dtype)) == width,
           "no memory for elements of this dtype");
  const Span wanted(begin, begin + into.numel());
  if (wanted.empty()) return;
  const bool is_plain = into.is_cpu() && into.is_contiguous() && into.scalar_type() == dtype;
  auto* const to = is_plain ? static_cast<std::byte*>(into.data_ptr()) : nullptr;
  const py::gil_scoped_release others_run;
  const at::NoGradGuard no_grad;
  reader.reader().read({{&stored, wanted}}, [&](std::size_t, const Span& elements, auto part) {
    const std::int64_t at = elements.begin() - begin;
    if (is_plain) {
      std::memcpy(to + at * width, part.data(), part.size());
      return;
    }
    // The tensor only reads the bytes, for as long as this call lasts.
    auto* const bytes = const_cast<std::byte*>(part.data());
    into.narrow(0, at, elements.size())
        .copy_(at::from_blob(bytes, {elements.size()}, at::TensorOptions(dtype)));
  });
}

std::optional<py::bytes> blob(CheckpointReader& reader, const std::string& name,
                              std::optional<int> rank) {
  const std::optional<std::string> bytes = reader.reader().read_blob(name, rank);
  if (!bytes) return std::nullopt;
  return py::bytes(*bytes);
}

}  // namespace

void bind_checkpoint_reader(py::module_& module) {
  const auto manifest = [](auto member) {
    return [member](const CheckpointReader& reader) { return reader.files().manifest().*member; };
  };
  py::class_<CheckpointReader>(module, "CheckpointReader")
      .def(py::init<const std::string&, const std::string&>(), py::arg("folder"),
           py::arg("tag") = "")
      .def_property_readonly(
          "folder", [](const CheckpointReader& reader) { return reader.files().folder().string(); })
      .def_property_readonly("ranks", manifest(&Manifest::ranks))
      .def_property_readonly("aliases", manifest(&Manifest::aliases))
      .def_property_readonly("documents", manifest(&Manifest::documents))
      .def_property_readonly("written_by", manifest(&Manifest::written_by))
      .def_property_readonly("run", &run_numbers)
      .def("tensors", &tensors)
      .def("read_ahead", &CheckpointReader::read_ahead, py::arg("core"), py::keep_alive<1, 2>())
      .def("read_into", &read_into, py::arg("name"), py::arg("state"), py::arg("begin"),
           py::arg("dtype"), py::arg("into"))
      .def("blob", &blob, py::arg("name"), py::arg("rank") = std::nullopt);
  module.def(
      "read_pointer",
      [](const std::string& root, const std::string& name) { return read_pointer(root, name); },
      py::arg("root"), py::arg("name"));
  module.def("is_checkpoint", [](const std::string& folder) { return is_checkpoint(folder); });
}

}  // namespace zeroshard::python
