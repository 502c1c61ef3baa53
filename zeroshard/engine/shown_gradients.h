// What `.grad` shows of gradients that the engine keeps: views onto its own memory, so that what
// somebody writes there is what the step sees. Where nothing is shown, `.grad` is empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zeroshard/engine/flat_unit.h"
#include "zeroshard/engine/reducer.h"

namespace zeroshard {

class ShownGradients {
 public:
  ShownGradients(const std::vector<FlatUnit*>& units, Reducer& reducer);
  // Whoever still holds a view keeps a copy of what it shows.
  ~ShownGradients();
  ShownGradients(const ShownGradients&) = delete;
  ShownGradients& operator=(const ShownGradients&) = delete;

  // G, which must be whole here. On several ranks a parameter that got no gradient on this one
  // shows what the others brought, or zeros.
  void show_reduced();
  // What this rank alone has collected since the last step.
  void show_local();
  // `.grad` is empty from here on. A gradient that was dropped meanwhile counts as none; one that
  // was replaced by another tensor has that tensor's values.
  void take_back();
  bool active() const { return active_; }

 private:
  struct Shown {
    std::size_t unit = 0;
    std::size_t index = 0;  // in the unit
    at::Tensor parameter = {};
    at::Tensor view = {};  // made when it is first shown, and again where the gradient has moved
    bool visible = false;
    bool present = false;    // it had a gradient when it was shown
    bool any_dtype = false;  // torch has been told that the gradient's dtype may be another
    std::int64_t version = 0;
  };

  // Where the gradients of a parameter are kept.
  struct Place {
    Reducer::UnitGradients& unit;
    GradientGroup& group;
    std::size_t index;  // of the parameter, in the group
  };
  Place place_of(const Shown& one) const;
  void show(bool local);
  at::Tensor view_of(const Shown& one, bool local) const;
  bool is_written(const Shown& one) const;
  void adopt(Shown& one);
  void drop(Shown& one);

  const std::vector<FlatUnit*> units_;
  Reducer& reducer_;
  std::vector<Shown> all_;
  bool active_ = false;
  bool local_ = false;
};

}  // namespace zeroshard
