#pragma once

#include <pybind11/pybind11.h>

namespace zeroshard::python {

namespace py = pybind11;

// `_C.ParameterLookup`: a dict that calls `self.use_released(parameter)` for a parameter without
// elements, and returns what that returns. `_C.wait_for_parameters`: for those that were not looked
// up in such a dict.
void bind_guarded_parameters(py::module_& module);

}  // namespace zeroshard::python
