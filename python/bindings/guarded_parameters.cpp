// A module's dictionary of parameters: every look-up of a forward comes here, so it runs no Python
// as long as the parameter has its elements. After a step that was not waited for, a look-up waits
// for the parameter's unit.
#include "python/bindings/guarded_parameters.h"

#include <array>

#include <torch/csrc/Exceptions.h>

#include "python/bindings/arriving_parameters.h"
#include "python/bindings/python_tensors.h"

namespace zeroshard::python {
namespace {

PyObject* found_or_asked_for(PyObject* self, PyObject* name) {
  auto found =
      py::reinterpret_steal<py::object>(PyDict_Type.tp_as_mapping->mp_subscript(self, name));
  if (!found || !is_tensor(found)) return found.release().ptr();
  const at::Tensor parameter = tensor_of(found);
  if (ArrivingParameters::any()) ArrivingParameters::wait_for(parameter.unsafeGetTensorImpl());
  if (parameter.sym_numel() != 0) return found.release().ptr();
  static PyObject* const use = PyUnicode_InternFromString("use_released");
  return PyObject_CallMethodOneArg(self, use, found.ptr());
}

// A tensor of a user's own class may throw when it is asked for its size.
PyObject* look_up(PyObject* self, PyObject* name) {
  HANDLE_TH_ERRORS
  return found_or_asked_for(self, name);
  END_HANDLE_TH_ERRORS
}

// What was listed rather than looked up, or kept from before. What is no tensor is passed over.
void wait_for_listed(const py::iterable& parameters) {
  if (!ArrivingParameters::any()) return;
  for (const py::handle each : parameters) {
    if (is_tensor(each)) ArrivingParameters::wait_for(tensor_of(each).unsafeGetTensorImpl());
  }
}

}  // namespace

void bind_guarded_parameters(py::module_& module) {
  std::array slots = {PyType_Slot{Py_mp_subscript, reinterpret_cast<void*>(look_up)},
                      PyType_Slot{0, nullptr}};
  PyType_Spec spec = {.name = "zeroshard._C.ParameterLookup",
                      .basicsize = 0,  // of a dict
                      .itemsize = 0,
                      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                      .slots = slots.data()};
  PyObject* type = PyType_FromSpecWithBases(&spec, reinterpret_cast<PyObject*>(&PyDict_Type));
  if (type == nullptr) throw py::error_already_set();
  module.attr("ParameterLookup") = py::reinterpret_steal<py::object>(type);
  module.def("wait_for_parameters", &wait_for_listed, py::arg("parameters"));
}

}  // namespace zeroshard::python
