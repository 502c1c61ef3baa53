// What a run writes down about itself: the monitor's sinks and its wall clock, for step_report.py.
#include <chrono>
#include <map>
#include <vector>

#include <pybind11/stl.h>

#include "python/bindings/config.h"
#include "zeroshard/monitor/monitor.h"
#include "zeroshard/monitor/wall_clock.h"

namespace zeroshard::python {
namespace {

void write(Monitor& monitor, std::int64_t samples, const std::map<std::string, double>& series) {
  std::vector<Scalar> scalars;
  scalars.reserve(series.size());
  for (const auto& [tag, value] : series) scalars.push_back({tag, value});
  monitor.write(samples, scalars);
}

void add_time(WallClock& clock, const std::string& name, double seconds) {
  const std::chrono::duration<double> time(seconds);
  clock.add(name, std::chrono::duration_cast<WallClock::Clock::duration>(time));
}

// The line to say, and the milliseconds by name.
py::tuple take(WallClock& clock) {
  const WallClockReading reading = clock.take();
  py::dict times;
  for (const WallClockTime& time : reading.times) times[py::str(time.name)] = time.ms_per_step;
  return py::make_tuple(wall_clock_line(reading), times);
}

}  // namespace

void bind_monitors(py::module_& module) {
  py::class_<Monitor>(module, "Monitor")
      .def(py::init([](const PythonConfig& config) {
        return std::make_unique<Monitor>(config.read.config.monitor);
      }))
      .def_property_readonly("enabled", &Monitor::enabled)
      .def("write", &write, py::arg("samples"), py::arg("series"));
  py::class_<WallClock>(module, "WallClock")
      .def(py::init<>())
      .def("add", &add_time, py::arg("name"), py::arg("seconds"))
      .def("end_step", &WallClock::end_step)
      .def("take", &take);
}

}  // namespace zeroshard::python
