// When each unit computes, for a trace's compute lane. Without a trace every call is one branch.
//
// Times are the host's: an accelerator may compute later than it was told to.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "zeroshard/monitor/trace.h"

namespace zeroshard {

class UnitTimes {
 public:
  explicit UnitTimes(Trace* trace) : trace_(trace) {}

  // Forwards may nest. `recomputes`: backward computes it once more.
  void begin_forward(std::size_t unit, bool recomputes) {
    if (trace_ != nullptr) forwards_.push_back({unit, recomputes, Trace::Clock::now()});
  }
  void end_forward(std::size_t unit, const std::string& name) {
    if (trace_ != nullptr) add_forward(unit, name);
  }
  // Of all gradients that arrive at a unit, the first one counts.
  void begin_backward(std::size_t unit) {
    if (trace_ != nullptr) backwards_.try_emplace(unit, Trace::Clock::now());
  }
  // Does nothing where none has begun.
  void end_backward(std::size_t unit, const std::string& name) {
    if (trace_ != nullptr) add_backward(unit, name);
  }

  // After an exception: what is open has no end.
  void drop_forwards() { forwards_.clear(); }
  void drop_backwards() { backwards_.clear(); }

 private:
  struct Forward {
    std::size_t unit = 0;
    bool recomputes = false;
    Trace::Clock::time_point begin;
  };

  void add_forward(std::size_t unit, const std::string& name);
  void add_backward(std::size_t unit, const std::string& name);

  Trace* const trace_;
  std::vector<Forward> forwards_;                              // open, innermost last
  std::map<std::size_t, Trace::Clock::time_point> backwards_;  // open, by unit
};

}  // namespace zeroshard
