// Parameters whose new values are still on their way after a step that nobody waited for: other
// ranks have updated their spans, and the gathers are under way unit by unit. Whoever looks such a
// parameter up in its module is ordered behind its unit first. All of it is called with Python's
// lock held.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include <pybind11/pybind11.h>

#include "zeroshard/engine/core.h"

namespace zeroshard::python {

namespace py = pybind11;

// Of one engine.
class ArrivingParameters : public std::enable_shared_from_this<ArrivingParameters> {
 public:
  explicit ArrivingParameters(Core& core);
  ArrivingParameters(const ArrivingParameters&) = delete;
  ArrivingParameters& operator=(const ArrivingParameters&) = delete;
  ~ArrivingParameters() { end(); }

  // A step has ended, and all its units are on their way.
  void begin();
  // All of them are there.
  void end();

  // Whether any engine's parameters are on their way: what each look-up asks first.
  static bool any();
  // Waits for the unit of this parameter, if it has one that is on its way.
  static void wait_for(const c10::TensorImpl* parameter);

 private:
  bool wait_if_own(const c10::TensorImpl* parameter);

  const std::shared_ptr<WeakCore> core_;
  std::unordered_map<const c10::TensorImpl*, std::size_t> unit_of_;
  // By unit: the stream that has waited for it, if any.
  std::vector<std::optional<std::int64_t>> waited_on_;
  std::size_t missing_ = 0;  // units that are not there yet
};

}  // namespace zeroshard::python
