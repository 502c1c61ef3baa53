#include "python/bindings/python_tensors.h"

#include <functional>
#include <utility>

#include <torch/csrc/autograd/python_variable.h>

namespace zeroshard::python {
namespace {

using Visit = std::function<void(py::handle)>;

// What is no container is looked into at the top only: caches and the like hold other passes'.
void visit_tensors(py::handle value, const Visit& visit, bool top) {
  if (is_tensor(value)) {
    visit(value);
  } else if (py::isinstance<py::dict>(value)) {
    for (const auto& item : py::reinterpret_borrow<py::dict>(value)) {
      visit_tensors(item.second, visit, false);
    }
  } else if (py::isinstance<py::tuple>(value) || py::isinstance<py::list>(value)) {
    for (const py::handle item : value) visit_tensors(item, visit, false);
  } else if (top && py::hasattr(value, "__dict__")) {
    visit_tensors(value.attr("__dict__"), visit, false);
  }
}

py::object replaced_in_sequence(const py::object& value, const std::vector<Replacement>& by) {
  py::list items;
  bool changed = false;
  for (const py::handle item : value) {
    const auto old = py::reinterpret_borrow<py::object>(item);
    py::object now = replaced(old, by);
    changed = changed || !now.is(old);
    items.append(std::move(now));
  }
  if (!changed) return value;
  const py::object type = py::type::of(value);
  if (py::hasattr(value, "_fields")) return type(*py::tuple(items));  // a named tuple
  return type(items);
}

py::object replaced_in_dict(const py::object& value, const std::vector<Replacement>& by) {
  py::object copy;
  for (const auto& item : py::reinterpret_borrow<py::dict>(value)) {
    const auto old = py::reinterpret_borrow<py::object>(item.second);
    py::object now = replaced(old, by);
    if (now.is(old)) continue;
    if (!copy) copy = value.attr("copy")();
    copy[item.first] = std::move(now);
  }
  return copy ? copy : value;
}

}  // namespace

bool is_tensor(py::handle object) { return THPVariable_Check(object.ptr()); }

at::Tensor tensor_of(py::handle object) { return THPVariable_Unpack(object.ptr()); }

py::object wrap(const at::Tensor& tensor) {
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
}

std::vector<at::Tensor> tensors_in(py::handle value) {
  std::vector<at::Tensor> all;
  visit_tensors(
      value, [&](py::handle tensor) { all.push_back(tensor_of(tensor)); }, true);
  return all;
}

std::vector<py::object> differentiable_in(py::handle value) {
  std::vector<py::object> all;
  visit_tensors(
      value,
      [&](py::handle tensor) {
        if (tensor_of(tensor).requires_grad()) {
          all.push_back(py::reinterpret_borrow<py::object>(tensor));
        }
      },
      false);
  return all;
}

py::object replaced(const py::object& value, const std::vector<Replacement>& by) {
  if (is_tensor(value)) {
    for (const Replacement& each : by) {
      if (each.old == value.ptr()) return each.now;
    }
    return value;
  }
  if (py::isinstance<py::dict>(value)) return replaced_in_dict(value, by);
  if (py::isinstance<py::tuple>(value) || py::isinstance<py::list>(value)) {
    return replaced_in_sequence(value, by);
  }
  return value;
}

}  // namespace zeroshard::python
