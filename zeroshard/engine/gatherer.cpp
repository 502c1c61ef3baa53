#include "zeroshard/engine/gatherer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "zeroshard/base/check.h"
#include "zeroshard/engine/settle.h"
#include "zeroshard/layout/alignment.h"

namespace zeroshard {

GatherPoolMemory::GatherPoolMemory(const GatherPool& plan, StateMemory& memory) : memory_(memory) {
  for (const SlotClass& of_size : plan.classes) {
    for (std::int64_t i = 0; i < of_size.slots; ++i) {
      slots_.emplace(
          of_size.slot_bytes,
          Slot{.buffer = memory.allocate(Category::buffers, Tier::device, of_size.slot_bytes),
               .planned = true});
    }
  }
}

void* GatherPoolMemory::take(std::int64_t slot_bytes) {
  const auto [first, last] = slots_.equal_range(slot_bytes);
  auto found = first;
  while (found != last && found->second.taken) ++found;
  if (found == last) found = slots_.emplace(slot_bytes, Slot{});
  Slot& slot = found->second;
  if (!slot.buffer) slot.buffer = memory_.allocate(Category::buffers, Tier::device, slot_bytes);
  slot.taken = true;
  return slot.buffer.data();
}

void GatherPoolMemory::give_back(void* slot) {
  for (auto& [bytes, each] : slots_) {
    if (each.buffer.data() != slot || !each.taken) continue;
    each.taken = false;
    return;
  }
  ZS_CHECK(false, "a slot that is not of this pool");
}

// A buffer goes when the current stream has come this far; it knows of no other stream.
void GatherPoolMemory::trim(const StreamOrder& order) {
  for (auto slot = slots_.begin(); slot != slots_.end();) {
    const bool goes = !slot->second.planned && !slot->second.taken;
    if (goes && slot->second.buffer) slot->second.buffer.wrote(order.current());
    slot = goes ? slots_.erase(slot) : std::next(slot);
  }
}

void GatherPoolMemory::empty(const StreamOrder& order) {
  trim(order);
  for (auto& [bytes, slot] : slots_) {
    if (slot.taken || !slot.buffer) continue;
    slot.buffer.wrote(order.current());
    slot.buffer = StateBuffer();
  }
}

Gatherer::Gatherer(std::vector<FlatUnit*> units, GatherSchedule schedule, const GatherPool& plan,
                   StateMemory& memory, StreamOrder& order, Communicator& comm)
    : schedule_(std::move(schedule)), pool_(plan, memory), order_(order), comm_(comm) {
  for (std::size_t i = 0; i < units.size(); ++i) {
    // A unit that no phase of the plan gathers gets slots of its own size.
    const std::int64_t planned = i < plan.slot_of_unit.size() ? plan.slot_of_unit[i] : 0;
    const std::int64_t own = checked_round_up(units[i]->gathered_bytes(), kBufferAlignmentBytes);
    entries_.push_back({.unit = units[i], .slot_bytes = std::max(planned, own)});
  }
}

void Gatherer::reach(PhaseKind phase, std::size_t unit) {
  run(schedule_.reach(phase, unit), unit);
  begin_use(unit);
}

void Gatherer::hold(std::size_t unit) {
  gather(unit);
  begin_use(unit);
}

void Gatherer::begin_use(std::size_t unit) {
  Entry& entry = entries_[unit];
  wait(unit);
  order_.before_read();
  if (++entry.holds == 1) entry.unit->show();
}

void Gatherer::unhold(std::size_t unit) {
  Entry& entry = entries_[unit];
  ZS_CHECK_GT(entry.holds, 0, "unit {} is not held", entry.unit->name());
  if (--entry.holds == 0) release(unit);
}

bool Gatherer::holds_any() const {
  return std::ranges::any_of(entries_, [](const Entry& entry) { return entry.holds > 0; });
}

void Gatherer::finish_phase() { run(schedule_.finish(), kNone); }

void Gatherer::drop_holds() {
  for (std::size_t unit = 0; unit < entries_.size(); ++unit) {
    entries_[unit].holds = 0;
    release(unit);
  }
}

// What is skipped is given up at once, so that catching up needs one buffer and not many.
void Gatherer::run(const GatherSchedule::Actions& actions, std::size_t needed) {
  for (const GatherSchedule::Action& each : actions) {
    if (each.gather) gather(each.unit);
    if (!each.skipped) continue;
    if (each.unit != needed && entries_[each.unit].holds == 0) release(each.unit);
    tell_skipped_(each.unit);
  }
}

void Gatherer::gather(std::size_t unit) {
  Entry& entry = entries_[unit];
  if (entry.unit->state() != ParameterState::sharded) return;
  wait_for_update(unit);
  order_.before_write();  // another stream may still read what was in the slot before
  entry.slot = pool_.take(entry.slot_bytes);
  entry.unit->begin_gather(entry.slot);
  note_gathered(entry.unit->gathered_bytes());
  entry.handle = comm_.all_gather_into(entry.unit->gather_pairs(), entry.unit->name());
}

void Gatherer::refresh(std::size_t unit) {
  Entry& entry = entries_[unit];
  // One rank's resident shard is the whole buffer; a released unit's may lie on the host.
  const bool stale = entry.unit->resident() ? comm_.world_size() > 1 : entry.holds > 0;
  if (!stale) return;
  const std::vector<GatherPair> pairs = entry.unit->gather_pairs(/*refresh=*/true);
  if (pairs.empty()) return;  // all frozen
  wait_for_update(unit);
  order_.before_write();
  entry.unit->begin_refresh();
  entry.handle = comm_.all_gather_into(pairs, entry.unit->name());
  if (entry.holds > 0) wait(unit);  // whoever holds it may read it at any time
}

void Gatherer::wait_for_update(std::size_t unit) {
  Entry& entry = entries_[unit];
  if (!entry.update) return;
  Trace* const trace = trace_ != nullptr && !entry.update->done() ? trace_ : nullptr;
  const Trace::Scope scope(trace, Lane::compute, "wait for the update of", entry.unit->name());
  order_.wait(*entry.update);
  entry.update.reset();  // where it has failed it stays, and whoever comes next hears of it, too
}

void Gatherer::wait_for_updates() {
  for (std::size_t unit = 0; unit < entries_.size(); ++unit) wait_for_update(unit);
}

void Gatherer::wait(std::size_t unit) {
  wait_for_update(unit);
  Entry& entry = entries_[unit];
  if (entry.unit->state() != ParameterState::gathering) return;
  {
    Trace* const trace = trace_ != nullptr && !entry.handle.done() ? trace_ : nullptr;
    const Trace::Scope scope(trace, Lane::compute, "wait for", entry.unit->name());
    order_.wait(entry.handle);
  }
  entry.handle = {};
  entry.unit->end_gather();
}

void Gatherer::wait_for_all() {
  for (std::size_t unit = 0; unit < entries_.size(); ++unit) wait(unit);
}

void Gatherer::settle() noexcept {
  settle_each(entries_, [](Entry& entry) {
    if (entry.update) entry.update->wait();
  });
  settle_each(entries_, [](Entry& entry) { entry.handle.wait(); });
}

void Gatherer::release(std::size_t unit) {
  Entry& entry = entries_[unit];
  if (entry.unit->resident() || entry.unit->state() == ParameterState::sharded) return;
  wait(unit);
  entry.unit->release();
  pool_.give_back(std::exchange(entry.slot, nullptr));
  note_gathered(-entry.unit->gathered_bytes());
}

void Gatherer::note_gathered(std::int64_t change) {
  gathered_bytes_ += change;
  if (trace_ != nullptr) trace_->count("gathered bytes", static_cast<double>(gathered_bytes_));
}

}  // namespace zeroshard
