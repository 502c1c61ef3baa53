// The update of a step: masters, moments and parameters of what the rank owns, unit by unit, from
// G. Our kernels do it, or an optimizer that the caller brings.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zeroshard/base/thread_pool.h"
#include "zeroshard/engine/delayed_updates.h"
#include "zeroshard/engine/flat_unit.h"
#include "zeroshard/engine/gatherer.h"
#include "zeroshard/engine/host_updates.h"
#include "zeroshard/engine/master_segments.h"
#include "zeroshard/engine/optimizer_states.h"
#include "zeroshard/engine/reducer.h"
#include "zeroshard/engine/speculative_updates.h"
#include "zeroshard/engine/stream_order.h"
#include "zeroshard/engine/update_gate.h"
#include "zeroshard/engine/values_down.h"
#include "zeroshard/monitor/trace.h"
#include "zeroshard/optim/device_norm.h"

namespace zeroshard {

struct UpdaterOptions {
  std::vector<std::vector<int>> parameter_groups = {};  // by unit and parameter
  int moments = 0;                                      // per parameter
  Stage stage;
  TierPlan tiers = {};
  bool halves_masters = true;                 // where they can be
  bool delays = false;                        // host units' updates
  std::optional<std::size_t> root_unit = {};  // whose values are needed first
  // An optimizer that is not ours; see EngineOptions.
  std::function<void(const std::vector<at::Tensor>& gradients)> callers = {};
  Trace* trace = nullptr;
};

class Updater {
 public:
  // Of the core, which keeps them while the updater lives.
  struct Parts {
    Gatherer& gatherer;
    Reducer& reducer;
    StateMemory& memory;
    StreamOrder& parameter_order;
    StreamOrder& gradient_order;
    ThreadPool& pool;
    UpdateGate& gate;
    SlotRing* staging = nullptr;  // where some unit's states are on the host
  };
  Updater(std::vector<FlatUnit*> units, UpdaterOptions options, const Parts& parts);

  // Of the gradients that the rank owns, which must be reduced. On an accelerator this is where the
  // host waits, once in a step.
  double sum_of_squares();
  // `present`, by parameter of all units in order: some rank had a gradient. The others stay as
  // they are. Each unit's new values are on their way when this returns: the gatherer knows of
  // them.
  void apply(const std::vector<bool>& present, const UpdateSettings& settings);
  // A backward begins that ends a step: of units on the host the update may begin as their G comes,
  // as if these were its settings (speculative_updates.h). The reducer offers them.
  void begin_speculation(const UpdateSettings& settings);
  void offer_early(std::size_t unit, std::function<void()> is_there);
  // Nobody has seen such updates, and they are taken back.
  void take_back_speculation();
  // Delayed updates (delayed_updates.h): the unit's, before its G is written; all of them; and
  // their new values, which all ranks call for together.
  void wait_for_delayed(std::size_t unit) const;
  void wait_for_delayed() const;
  bool publish_delayed();          // whether there were any
  void settle_delayed() noexcept;  // nothing touches G any more
  bool delays() const { return delayed_ != nullptr; }
  // The norm is known: whether nothing is clipped or skipped.
  void note_step(bool calm);
  SpeculativeUpdates* speculation() { return speculation_.get(); }
  // Parameters that had no gradient on any rank, by name, of the last step that was looked at.
  const std::vector<std::string>& note_without_gradient(const std::vector<bool>& present);
  const std::vector<std::string>& without_gradient() const { return without_gradient_; }
  // Parameters take the values of their masters, which somebody has written.
  void adopt_masters(std::size_t unit);

  // Buffers of the device through which values pass; they are made again when they are used.
  void drop_buffers();
  // Masters are elsewhere now: the caller's tensors over them follow, or are over nothing.
  void point_master_segments(bool here);

  OptimizerStates& states() { return *states_; }
  const OptimizerStates& states() const { return *states_; }
  // What an optimizer that is not ours works on; empty where ours does.
  const std::vector<MasterSegment>& master_segments() const { return master_segments_; }

 private:
  using ByUnit = std::vector<std::vector<bool>>;
  std::vector<const GradientGroup*> gradients_on(Tier tier) const;
  std::vector<NormSpan> norm_spans_on_device() const;
  void prepare_device();
  bool sends_values() const;
  ByUnit by_unit(const std::vector<bool>& present) const;
  void update_on_cpu(const ByUnit& present, const UpdateSettings& settings);
  void update_on_accelerator(const ByUnit& present, const UpdateSettings& settings);
  void start_host_updates(const ByUnit& present, const UpdateSettings& settings);
  void start_host_update(std::size_t unit, const std::vector<bool>& present,
                         const std::shared_ptr<const UpdateSettings>& settings);
  void start_delayed(const ByUnit& present, const std::shared_ptr<const UpdateSettings>& settings);
  HostUpdates::Work work_of(std::size_t unit, const std::vector<bool>& present,
                            const std::shared_ptr<const UpdateSettings>& settings);
  void send_delayed();
  bool is_delayed(std::size_t unit) const {
    return delayed_ && is_on_host(unit) && units_[unit]->options().tier == Tier::device;
  }
  bool sends_down(std::size_t unit) const {
    return !is_on_host(unit) && units_[unit]->options().tier == Tier::host;
  }
  bool is_on_host(std::size_t unit) const { return options_.tiers.optimizer(unit) == Tier::host; }
  void update_by_caller(const ByUnit& present, float factor);
  void send_values(std::size_t unit);

  const std::vector<FlatUnit*> units_;
  const UpdaterOptions options_;
  const Parts of_;
  const Device device_;
  ThreadPool& pool_;
  DeviceNorm norm_;
  StateBuffer norm_scratch_;  // on an accelerator
  std::unique_ptr<OptimizerStates> states_;
  std::unique_ptr<SpeculativeUpdates> speculation_;  // where updates may begin early
  std::unique_ptr<HostUpdates> host_updates_;        // where some unit's states are on the host
  std::unique_ptr<DelayedUpdates> delayed_;          // where they go on during the next step
  std::unique_ptr<ValuesDown> values_down_;          // where some are not, and its parameters are
  std::vector<MasterSegment> master_segments_;
  std::vector<std::string> without_gradient_;
};

}  // namespace zeroshard
