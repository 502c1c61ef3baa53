// Our errors, and torch's, as Python's exceptions.
#include <exception>

#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>

#include "python/bindings/config.h"
#include "zeroshard/base/error.h"

namespace zeroshard::python {
namespace {

PyObject* make_type(py::module_& module, const char* name, PyObject* base) {
  const std::string full = std::string("zeroshard.") + name;
  PyObject* const type = PyErr_NewException(full.c_str(), base, nullptr);
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
  types.base = make_type(module, "Error", PyExc_RuntimeError);
  types.config = make_type(module, "ConfigError", types.base);
  types.comm = make_type(module, "CommError", types.base);
  types.storage = make_type(module, "StorageError", types.base);
  types.state = make_type(module, "StateError", types.base);
  py::register_exception_translator(&translate);
}

}  // namespace zeroshard::python
