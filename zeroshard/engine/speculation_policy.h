// Whether updates may begin before the norm is known: not where the last steps would have proved
// them wrong, since taking them back costs more than they save.
#pragma once

#include <algorithm>

namespace zeroshard {

class SpeculationPolicy {
 public:
  bool may_begin() const { return calm_steps_ >= wanted_calm_; }

  // A step is over. `held`: an update that had begun early would have been right, because nothing
  // was clipped or skipped.
  void note_step(bool held) {
    if (held) {
      ++calm_steps_;
      return;
    }
    // Who clips now and then is left alone for longer each time, also where he clips while he is.
    wanted_calm_ = wanted_calm_ > 0 ? std::min(2 * wanted_calm_, kMostCalm) : kCalm;
    calm_steps_ = 0;
  }

 private:
  static constexpr int kCalm = 4, kMostCalm = 64;

  int calm_steps_ = 0;  // without a mistake
  int wanted_calm_ = 0;
};

}  // namespace zeroshard
