#include "zeroshard/engine/speculative_updates.h"

#include <algorithm>
#include <utility>

namespace zeroshard {

SpeculativeUpdates::SpeculativeUpdates(std::vector<FlatUnit*> units, const TierPlan& tiers,
                                       const Stage& stage, int moments, const Parts& parts)
    : flat_(std::move(units)), of_(parts), units_(flat_.size()) {
  memory_ = of_.memory.allocate_apart(Category::buffers, Tier::host, tiers.undo_bytes, false);
  auto* next = static_cast<std::byte*>(memory_.data());
  for (std::size_t i = 0; i < flat_.size(); ++i) {
    if (!tiers.updates_early(i, flat_[i]->resident())) continue;
    units_[i].eligible = true;
    for (const FlatGroup& group : flat_[i]->layout().groups()) {
      auto& record = units_[i].records.emplace_back();
      const std::int64_t bytes = undo_bytes(group, stage, moments);
      if (bytes == 0) {
        units_[i].eligible &= !group.trainable;  // too many elements for a record
        continue;
      }
      const bool sharded = stage.optimizer_states == Placement::sharded;
      record = UndoRecord::over(
          next, sharded ? group.layout.shard_numel() : group.layout.padded_numel(), 1 + moments);
      next += bytes;
    }
  }
}

void SpeculativeUpdates::begin(const UpdateSettings& settings) {
  settings_ = policy_.may_begin() ? std::make_shared<const UpdateSettings>(settings) : nullptr;
}

bool SpeculativeUpdates::all_present(std::size_t unit,
                                     const Reducer::UnitGradients& gradients) const {
  const auto& parameters = flat_[unit]->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].trained() && !gradients.present[i]) return false;
  }
  return true;
}

void SpeculativeUpdates::offer(std::size_t unit, const Reducer::UnitGradients& gradients,
                               std::function<void()> is_there) {
  Unit& of = units_[unit];
  if (settings_ == nullptr || !of.eligible || !all_present(unit, gradients)) return;
  of.work = {.settings = settings_};
  of.present = gradients.present;
  for (const OptimizerStates::PlacedUpdate& placed :
       of_.states.plan_update(unit, gradients, gradients.present, *settings_)) {
    of.work.segments.push_back(placed.update);
    of.work.undo.push_back(of.records[placed.group]->at(placed.begin));
  }
  for (const auto& record : of.records) {
    if (record) record->begin();
  }
  {
    const std::lock_guard lock(mutex_);
    of.state = State::waiting;
    ++of.offers;
  }
  of_.worker.run(
      [this, &of, offer = of.offers, is_there = std::move(is_there)] { run(of, offer, is_there); });
}

void SpeculativeUpdates::run(Unit& unit, std::uint64_t offer,
                             const std::function<void()>& is_there) {
  {
    const std::lock_guard lock(mutex_);
    if (unit.state != State::waiting || unit.offers != offer) return;
    unit.state = State::running;
  }
  const bool updated = is_reduced(is_there) && update(unit);
  const std::lock_guard lock(mutex_);
  unit.state = updated ? State::done : State::idle;
  changed_.notify_all();
}

bool SpeculativeUpdates::is_reduced(const std::function<void()>& is_there) {
  try {
    is_there();
    return true;
  } catch (const std::exception&) {
    return false;  // the reduction has failed: whoever waits for it says so
  }
}

bool SpeculativeUpdates::update(Unit& unit) {
  try {
    for (std::size_t i = 0; i < unit.work.segments.size(); ++i) {
      const SegmentUpdate& segment = unit.work.segments[i];
      update_revocably(*segment.options, segment.span, segment.scalars, unit.work.undo[i],
                       of_.pool);
    }
    return true;
  } catch (...) {  // a mistake of ours: the step says it
    unit.error = std::current_exception();
    return false;
  }
}

bool SpeculativeUpdates::settle(Unit& unit) {
  std::unique_lock lock(mutex_);
  if (unit.state == State::waiting) unit.state = State::idle;
  changed_.wait(lock, [&] { return unit.state != State::running; });
  if (unit.error) std::rethrow_exception(std::exchange(unit.error, nullptr));
  return unit.state == State::done;
}

bool SpeculativeUpdates::stand(const UpdateSettings& settings) {
  const auto assumed = std::exchange(settings_, nullptr);
  return assumed != nullptr && *assumed == settings;
}

std::optional<SpeculativeUpdates::Done> SpeculativeUpdates::take_over(std::size_t unit) {
  Unit& of = units_[unit];
  if (!settle(of)) return std::nullopt;
  of.state = State::idle;
  ++updated_;
  of_.states.count_update(unit, of.present);
  return std::exchange(of.work, {});
}

std::int64_t SpeculativeUpdates::undecided() {
  const std::lock_guard lock(mutex_);
  return std::ranges::count(units_, State::done, &Unit::state);
}

void SpeculativeUpdates::take_back() {
  settings_ = nullptr;
  for (Unit& unit : units_) {
    if (!settle(unit)) continue;
    for (std::size_t i = 0; i < unit.work.segments.size(); ++i) {
      const SegmentUpdate& segment = unit.work.segments[i];
      revoke_update(*segment.options, segment.span, segment.scalars, unit.work.undo[i], of_.pool);
    }
    unit.state = State::idle;
    unit.work = {};
    ++taken_back_;
    undone_ = true;
  }
}

}  // namespace zeroshard
