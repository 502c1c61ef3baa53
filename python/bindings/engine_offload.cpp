// States that leave the device for a while.
#include <algorithm>
#include <string>
#include <vector>

#include <pybind11/stl.h>

#include "python/bindings/engine_core.h"
#include "zeroshard/base/check.h"

namespace zeroshard::python {
namespace {

Category category_named(const std::string& name) {
  const auto found =
      std::ranges::find(kCategories, name, [](Category category) { return name_of(category); });
  ZS_CHECK(found != kCategories.end(), "no category {}", name);
  return *found;
}

void offload_states(EngineCore& engine, const std::vector<std::string>& names, bool pin,
                    bool blocks) {
  Core::OffloadRequest request{.states = {}, .pin = pin, .blocks = blocks};
  for (const std::string& name : names) request.states.insert(category_named(name));
  const py::gil_scoped_release others_run;
  engine.saves().wait();  // it may read what moves
  engine.core().offload_states(request);
}

std::vector<std::string> offloaded(EngineCore& engine) {
  std::vector<std::string> names;
  for (const Category category : engine.core().offloaded()) names.emplace_back(name_of(category));
  return names;
}

}  // namespace

void bind_engine_offload(py::class_<EngineCore>& type) {
  type.def("offload_states", &offload_states)
      .def("reload_states",
           [](EngineCore& engine, bool blocks) {
             const py::gil_scoped_release others_run;
             engine.saves().wait();
             engine.core().reload_states(blocks);
           })
      .def("offloaded", &offloaded)
      .def("check_parameters_here", [](EngineCore& engine) {
        const py::gil_scoped_release others_run;
        engine.core().check_parameters_here();
      });
}

}  // namespace zeroshard::python
