// Our errors, and torch's, as Python's exceptions.
#include <exception>

#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>

#include "python/bindings/config.h"
#include "zeroshard/base/error.h"

namespace zeroshard::python {
namespace {

PyObject* make_type(py::module_& module, const char* name, const py::tuple& bases) {
  const std::string full = std::string("zeroshard.") + name;
  PyObject* const type = PyErr_NewException(full.c_str(), bases.ptr(), nullptr);
  module.attr(name) = py::reinterpret_borrow<py::object>(type);
  return type;
}

struct Types {
  PyObject* base = nullptr;
  PyObject* config = nullptr;
  PyObject* comm = nullptr;
  PyObject* storage = nullptr;
  PyObject* state = nullptr;
};
Types types;  // live as long as the interpreter

PyObject* type_of(const Error& error) {
  if (dynamic_cast<const ConfigError*>(&error) != nullptr) return types.config;
  if (dynamic_cast<const CommError*>(&error) != nullptr) return types.comm;
  if (dynamic_cast<const StorageError*>(&error) != nullptr) return types.storage;
  if (dynamic_cast<const StateError*>(&error) != nullptr) return types.state;
  return types.base;
}

void translate(std::exception_ptr raised) {
  try {
    std::rethrow_exception(raised);
  } catch (const Error& error) {
    PyErr_SetString(type_of(error), error.what());
  } catch (python_error& error) {  // of Python code that autograd has run
    error.restore();
  } catch (const c10::OutOfMemoryError& error) {
    const py::object type = py::module_::import("torch").attr("OutOfMemoryError");
    PyErr_SetString(type.ptr(), error.what_without_backtrace());
  } catch (const c10::Error&) {
    PyErr_SetString(PyExc_RuntimeError, message_of(raised).c_str());
  }
}

}  // namespace

void bind_errors(py::module_& module) {
  const auto of = [](PyObject* type) { return py::reinterpret_borrow<py::object>(type); };
  types.base = make_type(module, "Error", py::make_tuple(of(PyExc_RuntimeError)));
  const py::object base = of(types.base);
  types.comm = make_type(module, "CommError", py::make_tuple(base));
  // DeepSpeed asserts, or raises a ValueError, where these are raised; its users catch that.
  const py::tuple caught = py::make_tuple(base, of(PyExc_ValueError), of(PyExc_AssertionError));
  types.config = make_type(module, "ConfigError", caught);
  types.storage = make_type(module, "StorageError", caught);
  types.state = make_type(module, "StateError", caught);
  py::register_exception_translator(&translate);
}

}  // namespace zeroshard::python
