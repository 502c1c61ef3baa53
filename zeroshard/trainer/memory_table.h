// Bytes of a rank, planned beside measured: for people, and for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zeroshard/monitor/json_lines.h"
#include "zeroshard/planner/footprint.h"
#include "zeroshard/planner/memory_plan.h"
#include "zeroshard/planner/overheads.h"
#include "zeroshard/trainer/memory_watch.h"

namespace zeroshard {

// "parameters 1.2 MiB, gradients ..., in all ...", before anything is allocated; what lies on the
// host is told apart.
std::string planned_line(const Footprint& plan);

// One figure.
struct ComparedMemory {
  std::string name;
  std::int64_t planned = 0;
  std::int64_t measured = 0;
  bool is_exact = false;  // planned to the byte; the others are estimates

  // An exact one that differs, or an estimate that is more than 5 % off.
  bool is_off() const;
};

// Figures that belong together: a key for programs, and a head for people.
struct MemorySection {
  std::string key;
  std::string head;
  std::vector<ComparedMemory> figures;
};

struct MemoryComparison {
  std::vector<MemorySection> sections;
  // Both tiers: with the CPU as device its memory is the process's, too. And of that the host's.
  ComparedMemory process;
  ComparedMemory host;
  std::int64_t process_before = 0;  // of both, before the model was made
};

MemoryComparison compare_memory(const MemoryPlan& plan, const ProcessOverheads& overheads,
                                const MeasuredMemory& measured);

// As tables; what is off is marked.
std::string memory_text(const MemoryComparison& memory);
// The same for a program, of the process what lies above the beginning; "off" has the names of what
// is off.
JsonObject memory_record(const MemoryComparison& memory);

}  // namespace zeroshard
