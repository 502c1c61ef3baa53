// Any range of any tensor of a safetensors file, as HuggingFace's models have them.
#include <string>

#include <ATen/core/Tensor.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "python/bindings/checkpoint_files.h"
#include "zeroshard/base/check.h"
#include "zeroshard/checkpoint/safetensors.h"

namespace zeroshard::python {
namespace {

// Of each tensor what its elements are, and its shape.
py::dict tensors(const SafetensorsReader& file) {
  py::dict all;
  for (const TensorEntry& entry : file.entries()) {
    all[py::str(entry.name)] =
        py::make_tuple(std::string(entry.dtype.name()), py::tuple(py::cast(entry.shape)));
  }
  return all;
}

// As many elements of a tensor, from `begin` on, as a flat one in host memory has, which has the
// same element type.
void read_into(const SafetensorsReader& file, const std::string& name, std::int64_t begin,
               const at::Tensor& into) {
  ZS_CHECK(into.is_cpu() && into.is_contiguous(), "no memory to read into");
  const auto width = static_cast<std::uint64_t>(into.element_size());
  auto* const to = static_cast<std::byte*>(into.data_ptr());
  const py::gil_scoped_release others_run;
  file.read(name, static_cast<std::uint64_t>(begin) * width,
            {to, static_cast<std::size_t>(into.numel()) * width});
}

}  // namespace

void bind_safetensors_file(py::module_& module) {
  py::class_<SafetensorsReader>(module, "SafetensorsFile")
      .def(py::init([](const std::string& path) { return SafetensorsReader(path); }),
           py::arg("path"))
      .def("tensors", &tensors)
      .def_property_readonly(
          "has_unreadable",
          [](const SafetensorsReader& file) { return !file.unreadable().empty(); })
      .def("read_into", &read_into, py::arg("name"), py::arg("begin"), py::arg("into"));
}

}  // namespace zeroshard::python
