#include "python/bindings/arriving_parameters.h"

#include <algorithm>
#include <utility>

namespace zeroshard::python {
namespace {

using Engines = std::vector<std::shared_ptr<ArrivingParameters>>;

Engines& engines_under_way() {
  static Engines all;
  return all;
}

}  // namespace

ArrivingParameters::ArrivingParameters(Core& core) : core_(core.weak()) {
  for (std::size_t unit = 0; unit < core.units(); ++unit) {
    for (const NamedParameter& parameter : core.unit(unit).parameters()) {
      unit_of_[parameter.tensor.unsafeGetTensorImpl()] = unit;
    }
  }
}

void ArrivingParameters::begin() {
  end();
  const CoreAccess core(core_);
  if (!core) return;
  waited_on_.assign(core->units(), std::nullopt);
  missing_ = core->units();
  if (missing_ > 0) engines_under_way().push_back(shared_from_this());
}

void ArrivingParameters::end() {
  const auto kept = weak_from_this().lock();  // the registry may hold the last reference
  missing_ = 0;
  std::erase_if(engines_under_way(), [&](const auto& each) { return each.get() == this; });
}

bool ArrivingParameters::any() { return !engines_under_way().empty(); }

void ArrivingParameters::wait_for(const c10::TensorImpl* parameter) {
  const Engines engines = engines_under_way();  // which change, or go, meanwhile
  std::ranges::any_of(engines, [&](const auto& each) { return each->wait_if_own(parameter); });
}

bool ArrivingParameters::wait_if_own(const c10::TensorImpl* parameter) {
  const auto found = unit_of_.find(parameter);
  if (found == unit_of_.end()) return false;
  const std::size_t unit = found->second;
  const CoreAccess core(core_);
  if (!core) return true;
  const std::int64_t stream = core->current_stream_id();
  if (waited_on_[unit] == stream) return true;
  {
    const py::gil_scoped_release others_run;
    core->wait_for_unit(unit);
  }
  if (missing_ == 0) return true;  // another thread was here
  if (!std::exchange(waited_on_[unit], stream) && --missing_ == 0) end();
  return true;
}

}  // namespace zeroshard::python
