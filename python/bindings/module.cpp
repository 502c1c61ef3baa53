// The extension module zeroshard._C.
#include <pybind11/stl.h>

#include "python/bindings/checkpoint_files.h"
#include "python/bindings/config.h"
#include "python/bindings/engine_core.h"
#include "python/bindings/forward_hooks.h"
#include "python/bindings/guarded_parameters.h"
#include "python/bindings/provisional_unit.h"
#include "zeroshard/base/log.h"

PYBIND11_MODULE(_C, module) {
  using namespace zeroshard::python;
  bind_errors(module);
  bind_config(module);
  bind_choice(module);
  bind_monitors(module);
  bind_schedules(module);
  bind_communicator(module);
  bind_forward_hooks(module);
  bind_guarded_parameters(module);
  bind_engine_core(module);
  bind_provisional_unit(module);
  bind_checkpoint_reader(module);
  bind_checkpoint_writer(module);
  bind_safetensors_file(module);
  module.def("log_info", [](const std::string& line) { zeroshard::log_info("{}", line); });
}
