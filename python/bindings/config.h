// A configuration as Python reads it, and what the engine takes of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <pybind11/pybind11.h>

#include "zeroshard/config/batch_size.h"
#include "zeroshard/config/read.h"
#include "zeroshard/engine/core.h"

namespace zeroshard::python {

namespace py = pybind11;

struct PythonConfig {
  config::ParsedConfig parsed;  // the text, as it was written
  config::ReadResult read;
  std::optional<config::BatchSizes> batch;
};

// What of an engine the configuration does not say.
struct CoreSettings {
  std::string device = "cpu";
  int threads = 1;                           // of the optimizer
  bool communicates_beside_compute = false;  // communication has a processor of its own
  int ranks = 1;
  int ranks_on_host = 1;        // of the host that has most
  std::int64_t parameters = 0;  // elements in all
  std::int64_t accumulation_steps = 1;
  bool keeps_dtypes = false;  // of parameters
  std::string optimizer_kind = "adam";
  py::list parameter_groups;
  std::map<std::string, int> group_of;  // by parameter's name
  py::object update = py::none();       // an optimizer that is not ours
  py::object after_backward = py::none();
};

EngineOptions engine_options_of(const PythonConfig& config, const CoreSettings& settings);

void bind_config(py::module_& module);
void bind_choice(py::module_& module);
void bind_monitors(py::module_& module);
void bind_schedules(py::module_& module);
void bind_communicator(py::module_& module);
void bind_errors(py::module_& module);

}  // namespace zeroshard::python
