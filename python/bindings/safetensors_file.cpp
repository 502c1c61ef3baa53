// Any range of any tensor of a safetensors file, as HuggingFace's models have them; and such files,
// written tensor by tensor.
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "python/bindings/checkpoint_files.h"
#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
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

using Named = std::tuple<std::string, std::string, std::vector<std::int64_t>>;  // dtype, shape

// A file that is being written. Who is done with it says so: an error keeps what it has seen alive.
class NewFile {
 public:
  NewFile(const std::string& path, const std::vector<Named>& tensors,
          const SafetensorsMetadata& metadata) {
    std::vector<TensorEntry> entries;
    for (const auto& [name, dtype, shape] : tensors) {
      const std::optional<StoredDType> stored = StoredDType::of(dtype);
      if (!stored) throw ConfigError({.what = "no dtype of safetensors", .value = dtype});
      entries.push_back({.name = name, .dtype = *stored, .shape = shape});
    }
    writer_.emplace(path, std::move(entries), metadata);
  }

  // The next bytes of a tensor.
  void write(const std::string& name, const at::Tensor& bytes) {
    ZS_CHECK(writer_ && bytes.is_cpu() && bytes.is_contiguous() && bytes.scalar_type() == at::kByte,
             "these are no bytes in host memory, or the file is closed");
    const auto* const from = static_cast<const std::byte*>(bytes.const_data_ptr());
    const py::gil_scoped_release others_run;
    writer_->write(name, {from, static_cast<std::size_t>(bytes.numel())});
  }
  void finish() {
    ZS_CHECK(writer_, "the file is closed");
    const py::gil_scoped_release others_run;
    writer_->finish();
  }
  // Without finish() nothing is left.
  void close() { writer_.reset(); }

 private:
  std::optional<SafetensorsWriter> writer_;
};

}  // namespace

void bind_safetensors_file(py::module_& module) {
  py::class_<NewFile>(module, "SafetensorsWriter")
      .def(py::init<const std::string&, const std::vector<Named>&, const SafetensorsMetadata&>(),
           py::arg("path"), py::arg("tensors"), py::arg("metadata"))
      .def("write", &NewFile::write, py::arg("name"), py::arg("bytes"))
      .def("finish", &NewFile::finish)
      .def("close", &NewFile::close);
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
