#include "zeroshard/engine/unit_uses.h"

#include <algorithm>

namespace zeroshard {

UnitUses::Id UnitUses::begin(std::size_t unit) {
  const std::lock_guard lock(mutex_);
  // What begins inside a backward is computed again there, and belongs to it.
  uses_[unit].push_back({.number = next_number_, .updates = updates_, .in_task = task_entered_});
  return {unit, next_number_++};
}

UnitUses::Use* UnitUses::find(const Id& id) {
  for (Use& use : uses_[id.unit]) {
    if (use.number == id.number) return &use;
  }
  return nullptr;
}

void UnitUses::add_node(const Id& id, const Node* node) {
  const std::lock_guard lock(mutex_);
  Use* const use = find(id);
  if (use == nullptr || node == nullptr) return;
  use->nodes.push_back(node);
  use->had_nodes = true;
}

void UnitUses::remove_node(const Id& id, const Node* node) {
  const std::lock_guard lock(mutex_);
  if (Use* const use = find(id)) std::erase(use->nodes, node);
}

void UnitUses::end_by_gradients(const Id& id) {
  const std::lock_guard lock(mutex_);
  if (Use* const use = find(id)) use->by_gradients = true;
}

void UnitUses::end(const Id& id) {
  const std::lock_guard lock(mutex_);
  if (Use* const use = find(id)) use->ended = true;
}

void UnitUses::forget(const Id& id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(uses_[id.unit], [&](const Use& use) { return use.number == id.number; });
}

bool UnitUses::belongs_to(const Use& use, const Nodes* nodes) {
  if (nodes == nullptr || !use.had_nodes) return true;
  // The set is keyed by pointers to mutable nodes; nothing is read or written through them.
  return std::ranges::any_of(
      use.nodes, [&](const Node* node) { return nodes->contains(const_cast<Node*>(node)); });
}

void UnitUses::enter_task(const Nodes* nodes) {
  const std::lock_guard lock(mutex_);
  task_entered_ = true;
  for (std::vector<Use>& of_unit : uses_) {
    for (Use& use : of_unit) {
      use.in_task = belongs_to(use, nodes);
      use.ended = false;
    }
  }
}

void UnitUses::leave_task() {
  const std::lock_guard lock(mutex_);
  task_entered_ = false;
  for (std::vector<Use>& of_unit : uses_) {
    for (Use& use : of_unit) use.in_task = false;
  }
}

template <typename Which>
int UnitUses::count(std::size_t unit, const Which& which) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::ranges::count_if(
      uses_[unit], [&](const Use& use) { return use.in_task && which(use); }));
}

int UnitUses::in_task(std::size_t unit) const {
  return count(unit, [](const Use&) { return true; });
}

int UnitUses::awaited(std::size_t unit) const {
  return count(unit, [](const Use& use) { return !use.ended; });
}

bool UnitUses::ends_by_gradients(std::size_t unit) const {
  const int told_by_nodes = count(unit, [](const Use& use) { return !use.by_gradients; });
  return told_by_nodes == 0 && in_task(unit) > 0;
}

void UnitUses::note_update() {
  const std::lock_guard lock(mutex_);
  ++updates_;
}

bool UnitUses::is_outdated(const Id& id) const {
  const std::lock_guard lock(mutex_);
  const auto& of_unit = uses_[id.unit];
  const auto use = std::ranges::find(of_unit, id.number, &Use::number);
  return use != of_unit.end() && use->updates != updates_;
}

}  // namespace zeroshard
