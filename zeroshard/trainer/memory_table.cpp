#include "zeroshard/trainer/memory_table.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/planner/memory_fit.h"

namespace zeroshard {
namespace {

constexpr double kTolerance = 0.05;
// What no plan counts: small tensors, and the last pages of large ones.
constexpr std::int64_t kNothing = 256 << 10;

bool is_on_cpu(const ProcessOverheads& overheads) { return overheads.at_start.device_bytes == 0; }

MemorySection engine_section(const Footprint& plan, const MeasuredMemory& measured, Tier tier) {
  const bool on_device = tier == Tier::device;
  MemorySection section{.key = on_device ? "device" : "host",
                        .head = on_device ? "per rank" : "on the host"};
  for (const Category category : kCategories) {
    section.figures.push_back({std::string(name_of(category)), plan.bytes(category, tier),
                               measured.of(category, tier), true});
  }
  return section;
}

// What libraries take before training is beside what the allocator gives out. What they take while
// it is under way (the workspaces of matrix products) torch has from its allocator.
MemorySection phase_section(const MemoryPlan& plan, const ProcessOverheads& overheads,
                            const MeasuredMemory& measured) {
  MemorySection section{.key = "phases", .head = "the device"};
  for (const StepPhase phase : kStepPhases) {
    const MemoryTable& table = plan.at(phase);
    section.figures.push_back({std::string(name_of(phase)),
                               table.total(Tier::device) - overheads.at_start.device_bytes,
                               measured.at(phase)});
  }
  return section;
}

std::int64_t engine_on_host(const MeasuredMemory& measured) {
  std::int64_t sum = 0;
  for (const Category category : kCategories) sum += measured.of(category, Tier::host);
  return sum;
}

// What is neither the engine's nor an operator's for a moment. Of the process it is what is left
// when all that is known is taken away.
MemorySection beside_section(const MemoryPlan& plan, const ProcessOverheads& overheads,
                             const MeasuredMemory& measured) {
  const Overheads libraries = overheads.all();
  const bool on_cpu = is_on_cpu(overheads);
  const std::int64_t known =
      engine_on_host(measured) + (on_cpu ? measured.most_on_device() : std::int64_t{0});
  MemorySection section{.key = "beside", .head = "beside it"};
  section.figures.push_back({"activations",
                             plan.kept_activations + overheads.while_training.device_bytes,
                             measured.kept_activations});
  if (!on_cpu) {
    section.figures.push_back(
        {"libraries", overheads.at_start.device_bytes, measured.device_libraries});
  }
  section.figures.push_back({on_cpu ? "libraries" : "libraries on the host", libraries.host_bytes,
                             measured.process_peak - known});
  return section;
}

std::string row(const ComparedMemory& figure) {
  const std::int64_t more = figure.measured - figure.planned;
  std::string mark;
  if (figure.is_off() && figure.is_exact) mark = "  differs";
  if (figure.is_off() && !figure.is_exact) {
    const double share = 100 * std::abs(static_cast<double>(more)) /
                         static_cast<double>(std::max<std::int64_t>(figure.planned, 1));
    mark = fmt::format("  {:.1f} % {} than planned", share, more > 0 ? "more" : "less");
  }
  return fmt::format("{:<12}{:>14}{:>14}{}\n", figure.name, human_bytes(figure.planned),
                     human_bytes(figure.measured), mark);
}

ComparedMemory sum_of(const MemorySection& section) {
  ComparedMemory sum{.name = "in all", .is_exact = true};
  for (const ComparedMemory& figure : section.figures) {
    sum.planned += figure.planned;
    sum.measured += figure.measured;
  }
  return sum;
}

std::string table(const MemorySection& section) {
  const bool is_exact = section.figures.front().is_exact;
  if (section.key == "host" && sum_of(section).planned + sum_of(section).measured == 0) return "";
  std::string text = fmt::format("{:<12}{:>14}{:>14}\n", section.head, "planned",
                                 is_exact ? "measured" : "at most");
  for (const ComparedMemory& figure : section.figures) text += row(figure);
  return is_exact ? text + row(sum_of(section)) : text;
}

}  // namespace

std::string planned_line(const Footprint& plan) {
  const std::string device = in_one_line(plan, Tier::device);
  if (plan.total(Tier::host) == 0) return device;
  return fmt::format("{}; on the host: {}", device, in_one_line(plan, Tier::host));
}

bool ComparedMemory::is_off() const {
  if (is_exact) return measured != planned;
  const std::int64_t off = std::abs(measured - planned);
  return off > kNothing && static_cast<double>(off) > kTolerance * static_cast<double>(planned);
}

MemoryComparison compare_memory(const MemoryPlan& plan, const ProcessOverheads& overheads,
                                const MeasuredMemory& measured) {
  MemoryComparison memory{.sections = {engine_section(plan.engine, measured, Tier::device),
                                       engine_section(plan.engine, measured, Tier::host),
                                       phase_section(plan, overheads, measured),
                                       beside_section(plan, overheads, measured)},
                          .process_before = measured.process_before};
  const std::int64_t on_host =
      measured.process_before + plan.peak(Tier::host) - overheads.at_start.host_bytes;
  const bool on_cpu = is_on_cpu(overheads);
  memory.host = {"the host", on_host,
                 measured.process_peak - (on_cpu ? measured.most_on_device() : 0)};
  memory.process = {"the process", on_host + (on_cpu ? plan.peak(Tier::device) : 0),
                    measured.process_peak};
  return memory;
}

std::string memory_text(const MemoryComparison& memory) {
  std::string text;
  for (const MemorySection& section : memory.sections) text += table(section);
  return text + row(memory.host) + row(memory.process);
}

JsonObject memory_record(const MemoryComparison& memory) {
  JsonObject record;
  std::vector<std::string> off;
  const auto note = [&](const ComparedMemory& figure, const std::string& name) {
    if (figure.is_off()) off.push_back(name);
  };
  for (const MemorySection& section : memory.sections) {
    JsonObject planned, measured;
    for (const ComparedMemory& figure : section.figures) {
      planned.add(figure.name, figure.planned);
      measured.add(figure.name, figure.measured);
      note(figure, section.key + " " + figure.name);
    }
    record.add(section.key, JsonObject().add("planned", planned).add("measured", measured));
  }
  const auto above = [&](const ComparedMemory& figure) {
    return JsonObject()
        .add("planned", figure.planned - memory.process_before)
        .add("measured", figure.measured - memory.process_before);
  };
  note(memory.host, "host_total");
  note(memory.process, "process");
  return record.add("host_total", above(memory.host))
      .add("process", above(memory.process).add("before", memory.process_before))
      .add("off", off);
}

}  // namespace zeroshard
