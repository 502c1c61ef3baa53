#include "zeroshard/engine/unit_times.h"

#include <algorithm>
#include <iterator>

namespace zeroshard {

void UnitTimes::add_forward(std::size_t unit, const std::string& name) {
  const auto last = std::find_if(forwards_.rbegin(), forwards_.rend(),
                                 [&](const Forward& open) { return open.unit == unit; });
  if (last == forwards_.rend()) return;
  trace_->add(Lane::compute, last->recomputes ? "recompute" : "forward", name, last->begin,
              Trace::Clock::now());
  forwards_.erase(std::next(last).base());
}

void UnitTimes::add_backward(std::size_t unit, const std::string& name) {
  const auto open = backwards_.find(unit);
  if (open == backwards_.end()) return;
  trace_->add(Lane::compute, "backward", name, open->second, Trace::Clock::now());
  backwards_.erase(open);
}

}  // namespace zeroshard
