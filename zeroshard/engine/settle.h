// For destructors: memory may go only when nothing under way uses it any more.
#pragma once

namespace zeroshard {

// Waits for each, whatever the others do. An error is dropped here: communication has failed, and
// whoever waited for it has heard of that, or is about to.
template <typename Wait>
void settle_one(const Wait& wait) noexcept {
  try {
    wait();
  } catch (...) {
  }
}

template <typename Range, typename Wait>
void settle_each(Range& all, const Wait& wait) noexcept {
  for (auto& each : all) settle_one([&] { wait(each); });
}

}  // namespace zeroshard
