// Checkpoints on the disk, for Python without an engine: states by name and element range, read and
// written through a few megabytes.
#pragma once

#include <pybind11/pybind11.h>

namespace zeroshard::python {

namespace py = pybind11;

void bind_checkpoint_reader(py::module_& module);
void bind_checkpoint_writer(py::module_& module);

}  // namespace zeroshard::python
