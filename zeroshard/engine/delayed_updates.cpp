#include "zeroshard/engine/delayed_updates.h"

#include <algorithm>
#include <utility>

#include "zeroshard/engine/settle.h"

namespace zeroshard {

void DelayedUpdates::publish(std::optional<std::size_t> first) {
  if (first) publish_unit(*first);
  for (std::size_t i = 0; i < units_.size(); ++i) publish_unit(i);
}

void DelayedUpdates::publish_unit(std::size_t unit) {
  Unit& of = units_[unit];
  if (!of.unpublished) return;
  HostUpdates::Work work = *std::exchange(of.unpublished, std::nullopt);
  work.part = HostUpdates::Part::send;
  expect_(unit, host_.update(std::move(work)));
}

void DelayedUpdates::start(std::size_t unit, HostUpdates::Work work) {
  work.part = HostUpdates::Part::update;
  units_[unit].unpublished = work;
  units_[unit].updated = host_.update(std::move(work));
}

void DelayedUpdates::wait(std::size_t unit) const { units_[unit].updated.wait(); }

void DelayedUpdates::settle() noexcept {
  settle_each(units_, [](const Unit& unit) { unit.updated.wait(); });
}

bool DelayedUpdates::under_way() const {
  return std::ranges::any_of(units_, [](const Unit& unit) { return unit.unpublished.has_value(); });
}

}  // namespace zeroshard
