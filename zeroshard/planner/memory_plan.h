// All memory of a rank, what the engine does not own included: by line, by tier, and by the phase
// of a step, each at its worst moment.
//
//   MemoryPlan plan = plan_memory(model, options, {.activations = &activations});
//   plan.peak(Tier::device);                        // over all phases
//   plan.at(StepPhase::backward).bytes(Line::activations, Tier::device);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "zeroshard/layout/activations.h"
#include "zeroshard/planner/footprint.h"

namespace zeroshard {

// What a table has a row for. The engine's categories, with its buffers apart; then what is beside
// the engine.
enum class Line {
  parameters,
  gradients,
  master,
  moments,
  gather_pool,
  buckets,
  sums,  // beside them, where devices add up what ranks send
  staging,
  undo,         // from which early updates can be taken back
  snapshot,     // a copy that checkpoints are written from
  activations,  // kept from forward to backward, and what is read
  logits,       // what the vocabulary takes, until the loss is differentiated
  working,      // what operators need meanwhile: inputs, outputs, gradients of activations
  library,      // code, contexts and scratch memory of libraries
};

inline constexpr std::array<Line, 14> kLines{
    Line::parameters,  Line::gradients, Line::master,  Line::moments, Line::gather_pool,
    Line::buckets,     Line::sums,      Line::staging, Line::undo,    Line::snapshot,
    Line::activations, Line::logits,    Line::working, Line::library};

std::string_view name_of(Line line);
// Whether the engine's ledger counts it: planned to the byte, where the others are estimates.
constexpr bool is_exact(Line line) { return line < Line::activations; }

class MemoryTable {
 public:
  void add(Line line, Tier tier, std::int64_t bytes);
  std::int64_t bytes(Line line, Tier tier) const;
  std::int64_t total(Tier tier) const;
  std::int64_t engine_total(Tier tier) const;  // of the exact lines

  bool operator==(const MemoryTable&) const = default;

 private:
  static constexpr std::size_t kTiers = 3;
  std::array<std::array<std::int64_t, kTiers>, kLines.size()> bytes_{};
};

enum class StepPhase { rest, forward, backward, step };
inline constexpr std::array<StepPhase, 4> kStepPhases{StepPhase::rest, StepPhase::forward,
                                                      StepPhase::backward, StepPhase::step};
std::string_view name_of(StepPhase phase);

// What a process holds beside states and activations.
struct Overheads {
  std::int64_t device_bytes = 0;
  std::int64_t host_bytes = 0;
};

// Beside the engine. Without activations they are not counted.
struct BesideEngine {
  const ModelActivations* activations = nullptr;
  Overheads overheads = {};
};

struct MemoryPlan {
  Footprint engine;  // all of it at once, as the ledger's peaks have it
  std::array<MemoryTable, kStepPhases.size()> phases;
  // Between a micro-step's forward and backward, logits included.
  std::int64_t kept_activations = 0;

  const MemoryTable& at(StepPhase phase) const { return phases[static_cast<std::size_t>(phase)]; }
  // The phase in which the tier holds most; the first of several.
  StepPhase worst(Tier tier) const;
  std::int64_t peak(Tier tier) const { return at(worst(tier)).total(tier); }
};

MemoryPlan plan_memory(const ModelLayout& model, const FootprintOptions& options,
                       const BesideEngine& beside = {});

}  // namespace zeroshard
