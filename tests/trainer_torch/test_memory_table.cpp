// What is planned beside what an allocator and a driver tell, on a made-up GPU: where torch has its
// workspaces from its allocator, they are among what that gives out, and no library's.
#include <gtest/gtest.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/trainer/memory_table.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kStates = 250 * kMiB, kActivations = 100 * kMiB;

MemoryPlan plan_with(const ProcessOverheads& overheads) {
  MemoryPlan plan;
  for (const StepPhase phase : kStepPhases) {
    MemoryTable& table = plan.phases[static_cast<std::size_t>(phase)];
    table.add(Line::parameters, Tier::device, kStates);
    table.add(Line::library, Tier::device, overheads.all().device_bytes);
    if (phase == StepPhase::backward) table.add(Line::activations, Tier::device, kActivations);
  }
  plan.kept_activations = kActivations;
  return plan;
}

// As torch's allocator and the driver see a run that is just as planned.
MeasuredMemory as_planned(const ProcessOverheads& overheads) {
  const std::int64_t workspaces = overheads.while_training.device_bytes;
  MeasuredMemory measured;
  measured.device.fill(kStates + workspaces);
  measured.device[static_cast<std::size_t>(StepPhase::backward)] += kActivations;
  measured.kept_activations = kActivations + workspaces;
  measured.device_libraries = overheads.at_start.device_bytes;
  return measured;
}

TEST(MemoryTable, WorkspacesAreAmongWhatTheAllocatorGivesOut) {
  const ProcessOverheads overheads = process_overheads({.accelerator = true});
  ASSERT_GT(overheads.while_training.device_bytes, kStates / 20) << "it would not show";
  const MemoryComparison memory =
      compare_memory(plan_with(overheads), overheads, as_planned(overheads));
  int compared = 0;
  for (const MemorySection& section : memory.sections) {
    if (section.key != "phases" && section.key != "beside") continue;
    for (const ComparedMemory& figure : section.figures) {
      if (figure.name == "libraries on the host") continue;
      EXPECT_EQ(figure.planned, figure.measured) << section.key << " " << figure.name;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 6);
}

}  // namespace
}  // namespace zeroshard
