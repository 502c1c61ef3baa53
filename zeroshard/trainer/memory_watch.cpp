#include "zeroshard/trainer/memory_watch.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/device/backend.h"
#include "zeroshard/setup/rank_memory.h"

namespace zeroshard {
namespace {

constexpr double kTolerance = 0.05;
// What no plan counts: small tensors, and the last pages of large ones.
constexpr std::int64_t kNothing = 256 << 10;

std::string estimate_row(std::string_view name, std::int64_t planned, std::int64_t measured) {
  const auto off = static_cast<double>(measured - planned) /
                   static_cast<double>(std::max<std::int64_t>(planned, 1));
  const bool is_off = std::abs(off) > kTolerance && std::abs(measured - planned) > kNothing;
  const std::string mark = is_off ? fmt::format("  {:.1f} % {} than planned", 100 * std::abs(off),
                                                off > 0 ? "more" : "less")
                                  : "";
  return fmt::format("{:<12}{:>14}{:>14}{}\n", name, human_bytes(planned), human_bytes(measured),
                     mark);
}

// Of both tiers, of what is above the process before the model was made: with the CPU as device
// its memory is the process's, too.
std::int64_t planned_process(const MemoryPlan& plan, const ProcessOverheads& overheads,
                             bool on_cpu) {
  const std::int64_t host = plan.peak(Tier::host) - overheads.at_start.host_bytes;
  return on_cpu ? host + plan.peak(Tier::device) : host;
}

bool is_on_cpu(const ProcessOverheads& overheads) { return overheads.at_start.device_bytes == 0; }

// Libraries are beside what an allocator gives out.
std::int64_t planned_on_device(const MemoryPlan& plan, StepPhase phase) {
  const MemoryTable& table = plan.at(phase);
  return table.total(Tier::device) - table.bytes(Line::library, Tier::device);
}

}  // namespace

MemoryWatch::MemoryWatch(Device device) : device_(device) {
  measured_.process_before = resident_bytes();
  take_peak();
}

std::int64_t MemoryWatch::take_peak() {
  DeviceBackend& backend = backend_of(device_.kind);
  const std::int64_t peak = backend.memory_use(device_.index).peak;
  backend.forget_memory_peak(device_.index);
  return peak;
}

void MemoryWatch::after(StepPhase phase, std::int64_t engine_bytes) {
  if (!is_watching()) return;
  std::int64_t& most = measured_.device[static_cast<std::size_t>(phase)];
  most = std::max(most, take_peak());
  if (phase != StepPhase::forward) return;
  const std::int64_t now = backend_of(device_.kind).memory_use(device_.index).now;
  measured_.kept_activations = std::max(measured_.kept_activations, now - engine_bytes);
}

void MemoryWatch::rest() {
  measured_.device[static_cast<std::size_t>(StepPhase::rest)] =
      backend_of(device_.kind).memory_use(device_.index).now;
}

MeasuredMemory MemoryWatch::measured() const {
  MeasuredMemory measured = measured_;
  measured.process_peak = peak_resident_bytes();
  return measured;
}

std::string phases_planned_and_measured(const MemoryPlan& plan, const ProcessOverheads& overheads,
                                        const MeasuredMemory& measured) {
  std::string text = fmt::format("{:<12}{:>14}{:>14}\n", "the device", "planned", "at most");
  for (const StepPhase phase : kStepPhases) {
    text += estimate_row(name_of(phase), planned_on_device(plan, phase), measured.at(phase));
  }
  text +=
      estimate_row("the process",
                   planned_process(plan, overheads, is_on_cpu(overheads)) + measured.process_before,
                   measured.process_peak);
  return text;
}

JsonObject memory_record(const MemoryPlan& plan, const ProcessOverheads& overheads,
                         const MeasuredMemory& measured, const MemoryLedger& ledger) {
  const auto tier = [&](Tier which) {
    JsonObject planned, held;
    for (const Category category : kCategories) {
      planned.add(name_of(category), plan.engine.bytes(category, which));
      held.add(name_of(category), ledger.peak(category, which));
    }
    return JsonObject().add("planned", planned).add("measured", held);
  };
  JsonObject planned, held;
  for (const StepPhase phase : kStepPhases) {
    planned.add(name_of(phase), planned_on_device(plan, phase));
    held.add(name_of(phase), measured.at(phase));
  }
  return JsonObject()
      .add("device", tier(Tier::device))
      .add("host", tier(Tier::host))
      .add("phases", JsonObject().add("planned", planned).add("measured", held))
      .add("process", JsonObject()
                          .add("planned", planned_process(plan, overheads, is_on_cpu(overheads)))
                          .add("measured", measured.process_peak - measured.process_before)
                          .add("before", measured.process_before));
}

}  // namespace zeroshard
