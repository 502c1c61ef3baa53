// Learning rates of ds_config.json's schedules.
#include <memory>
#include <string>

#include <pybind11/stl.h>

#include "python/bindings/config.h"
#include "zeroshard/base/error.h"
#include "zeroshard/schedule/lr_schedule.h"

namespace zeroshard::python {
namespace {

struct Schedule {
  ScheduleOptions options;
};

// `text`: a configuration of which the scheduler's section counts.
Schedule read_schedule(const std::string& text) {
  config::ReadResult read = config::read_config(text);
  std::string lines;
  for (const config::Problem& problem : read.report.problems()) {
    if (problem.severity != config::Severity::error) continue;
    lines += (lines.empty() ? "" : "; ") + problem.what + " " + problem.key;
  }
  if (lines.empty() && read.config.scheduler) return {*read.config.scheduler};
  throw ConfigError({.what = "the schedule cannot be made", .value = lines.empty() ? text : lines});
}

py::tuple value_at(const Schedule& schedule, std::int64_t iteration, double optimizer_lr) {
  const ScheduleValue value = schedule_at(schedule.options, iteration, optimizer_lr);
  if (!value.betas) return py::make_tuple(value.lr, py::none());
  return py::make_tuple(value.lr, py::make_tuple(value.betas->beta1, value.betas->beta2));
}

}  // namespace

void bind_schedules(py::module_& module) {
  py::class_<Schedule>(module, "Schedule")
      .def(py::init(&read_schedule))
      .def("at", &value_at, py::arg("iteration"), py::arg("optimizer_lr"));
}

}  // namespace zeroshard::python
