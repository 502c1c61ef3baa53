// States that leave the device between phases of a script, and come back.
#include <algorithm>
#include <iterator>
#include <utility>

#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/engine/core.h"

namespace zeroshard {

void Core::offload_states(const OffloadRequest& request) {
  const auto lock = enter();
  refuse_move();
  std::set<Category> leaving;
  std::ranges::set_difference(request.states, offloaded_.states(),
                              std::inserter(leaving, leaving.end()));
  if (leaving.empty()) return;
  end_everything();
  std::vector<StateBuffer*> memory;
  for (const Category category : leaving)
    std::ranges::copy(memory_of(category), std::back_inserter(memory));
  const auto give_up_the_rest = [&] {
    gatherer_->empty_pool();
    if (leaving.contains(Category::gradients)) take_back_shown();
    if (!leaving.contains(Category::buffers)) return;
    reducer_->drop_buffers();
    updater_->drop_buffers();
  };
  // Settling gradients, and taking back shown ones, may have given the stream more to do, and the
  // move waits for no stream of the caller's.
  const auto accepted = [&] {
    give_up_the_rest();
    gradient_order_.current().synchronize();
  };
  offloaded_.begin_offload(leaving, std::move(memory), request.pin, accepted);
  const bool parameters = leaving.contains(Category::parameters);
  if (parameters || leaving.contains(Category::master)) updater_->point_master_segments(false);
  for (const auto& unit : flat_) {
    if (parameters) unit->leave_device();
  }
  if (request.blocks) offloaded_.finish_move();
}

void Core::reload_states(bool blocks) {
  const auto lock = enter();
  const std::set<Category> coming = offloaded_.states();
  if (coming.empty()) return;
  std::vector<StateBuffer*> memory;
  for (const Category category : coming)
    std::ranges::copy(memory_of(category), std::back_inserter(memory));
  offloaded_.begin_reload(std::move(memory), [this, coming] { settle_reload(coming); });
  if (blocks) offloaded_.finish_move();
}

void Core::settle_reload(const std::set<Category>& states) {
  if (states.contains(Category::buffers)) reducer_->make_buffers();
  for (const auto& unit : flat_) {
    if (states.contains(Category::parameters)) unit->return_to_device();
  }
  updater_->point_master_segments(true);
  if (states.contains(Category::gradients)) show_gradients();
}

void Core::check_parameters_here() {
  const auto lock = enter();
  offloaded_.require({Category::parameters}, "a forward");
}

void Core::refuse_move() const {
  const auto is_open = [](const std::vector<bool>& scopes) { return !scopes.empty(); };
  if (!backward_->under_way() && !gatherer_->holds_any() &&
      std::ranges::none_of(full_scopes_, is_open)) {
    return;
  }
  throw StateError({.what = "states can be moved between steps only, and parameters are in use: a "
                            "forward, a backward or a scope of full parameters is open",
                    .value = "offload_states()",
                    .remedy = "call it after step(), outside of such scopes"});
}

void Core::end_everything() {
  gate_.wait_for_readers();
  gatherer_->finish_phase();
  publish_delayed();
  gatherer_->wait_for_all();
  reducer_->wait_for_own_spans();
  updater_->take_back_speculation();
  gradient_order_.before_write();
  parameter_order_.before_write();
  parameter_order_.current().synchronize();
}

// What a configuration has put on the host stays out of this: it belongs there.
std::vector<StateBuffer*> Core::memory_of(Category category) {
  std::vector<StateBuffer*> all;
  switch (category) {
    case Category::parameters:
      for (const auto& unit : flat_)
        std::ranges::copy(unit->owned_states(), std::back_inserter(all));
      return all;
    case Category::gradients: return reducer_->memory();
    case Category::master:
    case Category::moments: return updater_->states().memory_of(category);
    case Category::buffers: break;  // nothing lives in them
  }
  return all;
}

// The model goes on without its engine.
void Core::bring_back_parameters() noexcept {
  try {
    offloaded_.finish_move();
    if (!offloaded_.states().contains(Category::parameters)) return;
    offloaded_.begin_reload(memory_of(Category::parameters), [this] {
      for (const auto& unit : flat_) unit->return_to_device();
    });
    offloaded_.finish_move();
  } catch (const std::exception& error) {
    log_warning(
        "[engine] parameters that offload_states() has put on the host could not come back when "
        "their engine ended, so they have no values: {}",
        error.what());
  }
}

}  // namespace zeroshard
