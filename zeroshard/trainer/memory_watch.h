// What a run has taken of memory, phase by phase.
//
//   MemoryWatch watch(device);         // before the model is made
//   watch.after(StepPhase::forward);   // behind each phase of a micro-step
//   watch.rest();                      // when all is finished
#pragma once

#include <array>
#include <cstdint>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/device.h"
#include "zeroshard/planner/memory_plan.h"
#include "zeroshard/tier/state_memory.h"

namespace zeroshard {

struct MeasuredMemory {
  // Of the device: what is given out to us and to torch, at most in each phase.
  std::array<std::int64_t, kStepPhases.size()> device = {};
  std::int64_t kept_activations = 0;  // behind a forward, beside the engine's
  // Of an accelerator, by its driver: neither free nor its allocator's. Other processes' is among
  // it where there are any.
  std::int64_t device_libraries = 0;
  std::int64_t process_before = 0;  // before the model was made
  std::int64_t process_peak = 0;
  // The ledger's: at most, by category, on the device and on the host.
  std::array<std::array<std::int64_t, 2>, kCategories.size()> engine = {};

  std::int64_t at(StepPhase phase) const { return device[static_cast<std::size_t>(phase)]; }
  std::int64_t of(Category category, Tier tier) const {
    return engine[static_cast<std::size_t>(category)][tier == Tier::device ? 0 : 1];
  }
  std::int64_t most_on_device() const;
};

class MemoryWatch {
 public:
  explicit MemoryWatch(Device device);

  // The first steps show all there is to see; then it costs nothing.
  bool is_watching() const { return steps_ < kSteps; }
  // A phase of a micro-step is over. `engine_bytes`: what the ledger holds of the device.
  void after(StepPhase phase, std::int64_t engine_bytes);
  void end_step() { ++steps_; }
  // Between steps, when nothing is under way.
  void rest();

  MeasuredMemory measured(const MemoryLedger& ledger) const;
  // Also of the phase that is under way.
  std::int64_t most_on_device() const;

 private:
  static constexpr int kSteps = 3;

  std::int64_t take_peak();

  const Device device_;
  MeasuredMemory measured_;
  int steps_ = 0;
};

// Each figure of the rank that has taken most of it. Collective.
MeasuredMemory most_of_all_ranks(const MeasuredMemory& mine, Communicator& comm);

}  // namespace zeroshard
