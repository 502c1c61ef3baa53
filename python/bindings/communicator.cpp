// The communicator over a process group that torch.distributed has made, found by its name.
#include <memory>
#include <string>

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "python/bindings/config.h"
#include "zeroshard/base/launch.h"
#include "zeroshard/comm/c10d.h"
#include "zeroshard/comm/connect_devices.h"
#include "zeroshard/comm/single.h"
#include "zeroshard/setup/choose_device.h"

namespace zeroshard::python {
namespace {

std::shared_ptr<Communicator> over_group(const std::string& name, double timeout_seconds,
                                         const std::string& device, bool deterministic) {
  auto group = c10d::resolve_process_group(name)->getBackend(c10::DeviceType::CPU);
  C10dOptions options;
  options.comm.timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(timeout_seconds * 1000));
  std::unique_ptr<Communicator> comm = make_c10d_communicator(std::move(group), options);
  const Device on = choose_device(device, 0);
  if (on.kind == DeviceKind::cpu) return comm;
  options.comm.deterministic = deterministic;
  return connect_devices(std::move(comm), on, {.comm = options.comm});
}

// (launcher, rank, world size, local rank), as the launchers' variables say.
py::tuple launch() {
  const Launch read = read_launch(/*meets_by_mpi=*/false);
  return py::make_tuple(std::string(name_of(read.launcher)), read.rank, read.world_size,
                        read.local_rank);
}

std::shared_ptr<Communicator> alone(const std::string& device) {
  return make_single_communicator(choose_device(device, 0));
}

}  // namespace

void bind_communicator(py::module_& module) {
  py::class_<Communicator, std::shared_ptr<Communicator>>(module, "Communicator")
      .def_property_readonly("rank", &Communicator::rank)
      .def_property_readonly("world_size", &Communicator::world_size);
  module.def("communicator_over_group", &over_group, py::arg("name"), py::arg("timeout_seconds"),
             py::arg("device"), py::arg("deterministic"), py::call_guard<py::gil_scoped_release>());
  module.def("communicator_alone", &alone, py::arg("device"));
  module.def("read_launch", &launch);
}

}  // namespace zeroshard::python
