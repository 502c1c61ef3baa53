// What a run has taken of memory, phase by phase, beside what was planned.
//
//   MemoryWatch watch(device);         // before the model is made
//   watch.after(StepPhase::forward);   // behind each phase of a micro-step
//   watch.rest();                      // when all is finished
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "zeroshard/device/device.h"
#include "zeroshard/monitor/json_lines.h"
#include "zeroshard/planner/memory_plan.h"
#include "zeroshard/planner/overheads.h"
#include "zeroshard/tier/state_memory.h"

namespace zeroshard {

struct MeasuredMemory {
  // Of the device: what is given out to us and to torch, at most in each phase.
  std::array<std::int64_t, kStepPhases.size()> device = {};
  std::int64_t kept_activations = 0;  // behind a forward, beside the engine's
  std::int64_t process_before = 0;    // before the model was made
  std::int64_t process_peak = 0;

  std::int64_t at(StepPhase phase) const { return device[static_cast<std::size_t>(phase)]; }
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

  MeasuredMemory measured() const;

 private:
  static constexpr int kSteps = 3;

  std::int64_t take_peak();

  const Device device_;
  MeasuredMemory measured_;
  int steps_ = 0;
};

// Planned beside measured, phase by phase, and the process; what is more than 5 % off is marked.
std::string phases_planned_and_measured(const MemoryPlan& plan, const ProcessOverheads& overheads,
                                        const MeasuredMemory& measured);

// The same for a program.
JsonObject memory_record(const MemoryPlan& plan, const ProcessOverheads& overheads,
                         const MeasuredMemory& measured, const MemoryLedger& ledger);

}  // namespace zeroshard
