#include "python/bindings/provisional_unit.h"

#include <memory>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/utils/pybind.h>

#include "zeroshard/base/error.h"
#include "zeroshard/device/accelerators.h"
#include "zeroshard/engine/tensors.h"

namespace zeroshard::python {
namespace {

UnitSpec spec_of(const std::string& name, const at::Tensor& values) {
  return {.name = name, .parameters = {{.name = name, .tensor = values.detach()}}};
}

// Init may come before anything else that asks for a device.
std::shared_ptr<StateMemory> memory_beside(const at::Tensor& values) {
  const Device device = zeroshard::device_of(values);
  if (device != kCpu) load_accelerators();
  return std::make_shared<StateMemory>(device);
}

FlatUnitOptions options_of(int rank, int world_size) {
  return {.rank = rank, .world_size = world_size, .resident = false};
}

}  // namespace

ProvisionalUnit::ProvisionalUnit(const std::string& name, const at::Tensor& values, int rank,
                                 int world_size)
    : sizes_(values.sizes().vec()),
      unit_(spec_of(name, values), options_of(rank, world_size), memory_beside(values)) {}

at::Tensor ProvisionalUnit::shard() const {
  const Piece piece = unit_.shard_piece(0);
  return tensor_over(piece.data, piece.count, piece.dtype, unit_.memory()->device());
}

at::Tensor ProvisionalUnit::own_part() const {
  return shard().narrow(0, 0, layout().piece(0, unit_.rank()).flat.size());
}

at::Tensor ProvisionalUnit::begin_gather() {
  full_ = at::empty({layout().padded_numel()}, shard().options());
  unit_.begin_gather(full_.mutable_data_ptr());
  return full_;
}

at::Tensor ProvisionalUnit::end_gather() {
  unit_.end_gather();
  return full_.narrow(0, 0, layout().numel()).view(sizes_);
}

at::Tensor ProvisionalUnit::written(const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  if (values.sizes() != at::IntArrayRef(sizes_)) {
    throw StateError({.what = "a parameter was given values of another shape",
                      .value = fmt::format("({}) for ({})", fmt::join(values.sizes(), ", "),
                                           fmt::join(sizes_, ", ")),
                      .remedy = "make a new parameter for them, and put it into the module"});
  }
  const at::Tensor own = full_.narrow(0, 0, layout().numel()).view(sizes_);
  if (values.const_data_ptr() != own.const_data_ptr()) own.copy_(values);  // `.data` was replaced
  return full_;
}

void ProvisionalUnit::release(bool keeps) {
  if (keeps) unit_.copy_full_to_shard();
  unit_.release();
  full_.reset();
}

void bind_provisional_unit(py::module_& module) {
  py::class_<ProvisionalUnit>(module, "ProvisionalUnit")
      .def(py::init<const std::string&, const at::Tensor&, int, int>(), py::arg("name"),
           py::arg("values"), py::arg("rank"), py::arg("world_size"))
      .def("own_part", &ProvisionalUnit::own_part)
      .def("shard", &ProvisionalUnit::shard)
      .def("begin_gather", &ProvisionalUnit::begin_gather)
      .def("end_gather", &ProvisionalUnit::end_gather)
      .def("written", &ProvisionalUnit::written)
      .def("release", &ProvisionalUnit::release, py::arg("keeps"));
}

}  // namespace zeroshard::python
