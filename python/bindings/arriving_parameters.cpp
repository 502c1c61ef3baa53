#include "python/bindings/arriving_parameters.h"

#include <algorithm>

namespace zeroshard::python {
namespace {

std::vector<ArrivingParameters*>& engines_under_way() {
  static std::vector<ArrivingParameters*> all;
  return all;
}

}  // namespace

ArrivingParameters::ArrivingParameters(Core& core) : core_(core) {
  for (std::size_t unit = 0; unit < core.units(); ++unit) {
    for (const NamedParameter& parameter : core.unit(unit).parameters()) {
      unit_of_[parameter.tensor.unsafeGetTensorImpl()] = unit;
    }
  }
}

void ArrivingParameters::begin() {
  end();
  is_there_.assign(core_.units(), false);
  missing_ = core_.units();
  if (missing_ > 0) engines_under_way().push_back(this);
}

void ArrivingParameters::end() {
  missing_ = 0;
  std::erase(engines_under_way(), this);
}

bool ArrivingParameters::any() { return !engines_under_way().empty(); }

void ArrivingParameters::wait_for(const c10::TensorImpl* parameter) {
  const std::vector<ArrivingParameters*> engines = engines_under_way();  // which change meanwhile
  std::ranges::any_of(engines,
                      [&](ArrivingParameters* each) { return each->wait_if_own(parameter); });
}

bool ArrivingParameters::wait_if_own(const c10::TensorImpl* parameter) {
  const auto found = unit_of_.find(parameter);
  if (found == unit_of_.end()) return false;
  const std::size_t unit = found->second;
  if (is_there_[unit]) return true;
  {
    const py::gil_scoped_release others_run;
    core_.wait_for_unit(unit);
  }
  if (missing_ == 0 || is_there_[unit]) return true;  // another thread was here
  is_there_[unit] = true;
  if (--missing_ == 0) end();
  return true;
}

}  // namespace zeroshard::python
