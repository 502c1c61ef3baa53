// Tensors inside what a Python module is called with and returns: a tensor, or tuples, lists and
// dictionaries of such, as deep as they go.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

namespace zeroshard::python {

namespace py = pybind11;

at::Tensor tensor_of(py::handle object);
py::object wrap(const at::Tensor& tensor);
bool is_tensor(py::handle object);

// All of them, in order. Of another object (a dataclass that a model returns) its attributes'.
std::vector<at::Tensor> tensors_in(py::handle value);

// The same value with some of its tensors replaced. Containers around nothing new stay the same
// objects; others are made anew, of the same type.
struct Replacement {
  PyObject* old = nullptr;
  py::object now;
};
py::object replaced(const py::object& value, const std::vector<Replacement>& replacements);

// The tensors that require a gradient, as objects.
std::vector<py::object> differentiable_in(py::handle value);

}  // namespace zeroshard::python
