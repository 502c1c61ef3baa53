#include "zeroshard/planner/memory_plan.h"

#include <algorithm>
#include <vector>

#include "zeroshard/layout/checked.h"

namespace zeroshard {
namespace {

// What of the engine's memory is there all the time.
MemoryTable engine_table(const Footprint& engine) {
  MemoryTable table;
  for (const Tier tier : {Tier::device, Tier::host}) {
    table.add(Line::parameters, tier, engine.bytes(Category::parameters, tier));
    table.add(Line::gradients, tier, engine.bytes(Category::gradients, tier));
    table.add(Line::master, tier, engine.bytes(Category::master, tier));
    table.add(Line::moments, tier, engine.bytes(Category::moments, tier));
    table.add(Line::gather_pool, tier, engine.buffers(BufferUse::gather_pool, tier));
    table.add(Line::buckets, tier, engine.buffers(BufferUse::buckets, tier));
    table.add(Line::sums, tier, engine.buffers(BufferUse::sums, tier));
    table.add(Line::staging, tier,
              engine.buffers(BufferUse::staging, tier) + engine.buffers(BufferUse::norm, tier));
    table.add(Line::undo, tier, engine.buffers(BufferUse::undo, tier));
    table.add(Line::snapshot, tier, engine.buffers(BufferUse::snapshot, tier));
  }
  return table;
}

// Goes through a micro-step unit by unit, and notes the worst moment of each direction.
class Timeline {
 public:
  Timeline(const MemoryTable& at_rest, const ModelActivations& activations, const TierPlan& tiers)
      : base_(at_rest), activations_(activations), tiers_(tiers) {
    base_.add(Line::activations, Tier::device, activations.batch);
  }

  MemoryTable forward() {
    MemoryTable worst = base_;
    for (const UnitActivations& use : activations_.uses) {
      note(use, use.forward, worst);
      kept_ += use.kept;
    }
    return worst;
  }

  // Behind forward(): what waits for backward.
  std::int64_t kept() const { return activations_.batch + activations_.tables + kept_; }

  // Behind forward(). A gradient that passes is among what its own unit works with until then, and
  // leaves while the next unit computes.
  MemoryTable backward() {
    MemoryTable worst = base_;
    std::int64_t left = 0, passing = 0;
    std::vector<bool> over(tiers_.gradients.size());
    for (auto use = activations_.uses.rbegin(); use != activations_.uses.rend(); ++use) {
      kept_ -= use->kept;
      MemoryTable now = base_;
      now.add(Line::working, Tier::device, left);
      now.add(Line::gradients, Tier::device, passing);
      note(now, *use, use->backward, worst);
      left += use->left;
      if (use->unit >= over.size() || over[use->unit]) continue;
      const TierPlan::OwnGradients& own = tiers_.gradients[use->unit];
      base_.add(Line::gradients, Tier::device, own.held_bytes);
      passing = own.passing_bytes;
      over[use->unit] = true;
    }
    return worst;
  }

 private:
  void note(const UnitActivations& use, std::int64_t meanwhile, MemoryTable& worst) const {
    note(base_, use, meanwhile, worst);
  }

  // Of what a use takes meanwhile, logits and what it keeps have lines of their own.
  void note(MemoryTable now, const UnitActivations& use, std::int64_t meanwhile,
            MemoryTable& worst) const {
    const std::int64_t logits = std::min(use.logits, meanwhile);
    const std::int64_t kept =
        std::min(std::max<std::int64_t>(use.kept - logits, 0), meanwhile - logits);
    now.add(Line::activations, Tier::device, kept_ + kept);
    now.add(Line::logits, Tier::device, logits);
    now.add(Line::working, Tier::device, meanwhile - logits - kept);
    if (now.total(Tier::device) > worst.total(Tier::device)) worst = now;
  }

  MemoryTable base_;
  const ModelActivations& activations_;
  const TierPlan& tiers_;
  std::int64_t kept_ = 0;
};

std::int64_t held_bytes(const TierPlan& tiers) {
  std::int64_t sum = 0;
  for (const auto& own : tiers.gradients) sum = checked_add(sum, own.held_bytes);
  return sum;
}

// The gradients that are complete last are still on their way when the update begins: those of the
// root unit, and of the unit that forward begins with.
std::int64_t last_passing(const ModelLayout& model, const TierPlan& tiers) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < model.units().size(); ++i) {
    const bool last = i == model.root_unit() || i == 0;
    if (last) bytes = checked_add(bytes, tiers.gradients[i].passing_bytes);
  }
  return std::min(bytes, tiers.passing_gradient_bytes);
}

}  // namespace

std::string_view name_of(Line line) {
  switch (line) {
    case Line::parameters: return "parameters";
    case Line::gradients: return "gradients";
    case Line::master: return "master";
    case Line::moments: return "moments";
    case Line::gather_pool: return "gather pool";
    case Line::buckets: return "reduce buckets";
    case Line::sums: return "sums of ranks";
    case Line::staging: return "staging";
    case Line::undo: return "undo records";
    case Line::snapshot: return "copy for saves";
    case Line::activations: return "activations";
    case Line::logits: return "logits";
    case Line::working: return "working";
    case Line::library: return "libraries";
  }
  return "?";
}

std::string_view name_of(StepPhase phase) {
  switch (phase) {
    case StepPhase::rest: return "at rest";
    case StepPhase::forward: return "forward";
    case StepPhase::backward: return "backward";
    case StepPhase::step: return "update";
  }
  return "?";
}

void MemoryTable::add(Line line, Tier tier, std::int64_t bytes) {
  auto& cell = bytes_[static_cast<std::size_t>(line)][static_cast<std::size_t>(tier)];
  cell = checked_add(cell, bytes);
}

std::int64_t MemoryTable::bytes(Line line, Tier tier) const {
  return bytes_[static_cast<std::size_t>(line)][static_cast<std::size_t>(tier)];
}

std::int64_t MemoryTable::total(Tier tier) const {
  std::int64_t sum = 0;
  for (const Line line : kLines) sum = checked_add(sum, bytes(line, tier));
  return sum;
}

std::int64_t MemoryTable::engine_total(Tier tier) const {
  std::int64_t sum = 0;
  for (const Line line : kLines) {
    if (is_exact(line)) sum = checked_add(sum, bytes(line, tier));
  }
  return sum;
}

StepPhase MemoryPlan::worst(Tier tier) const {
  return *std::ranges::max_element(kStepPhases, {},
                                   [&](StepPhase phase) { return at(phase).total(tier); });
}

MemoryPlan plan_memory(const ModelLayout& model, const FootprintOptions& options,
                       const BesideEngine& beside) {
  MemoryPlan plan{.engine = footprint(model, options), .phases = {}};
  const TierPlan tiers = tier_plan(model, options);
  static const ModelActivations kNone;
  const ModelActivations& activations = beside.activations == nullptr ? kNone : *beside.activations;

  MemoryTable step = engine_table(plan.engine);
  step.add(Line::gradients, Tier::device, -tiers.passing_gradient_bytes);
  step.add(Line::activations, Tier::device, activations.tables);
  step.add(Line::library, Tier::device, beside.overheads.device_bytes);
  step.add(Line::library, Tier::host, beside.overheads.host_bytes);
  MemoryTable rest = step;
  rest.add(Line::gradients, Tier::device, -held_bytes(tiers));
  step.add(Line::gradients, Tier::device, last_passing(model, tiers));

  Timeline timeline(rest, activations, tiers);
  const MemoryTable forward = timeline.forward();
  plan.kept_activations = timeline.kept();
  plan.phases = {rest, forward, timeline.backward(), step};
  return plan;
}

}  // namespace zeroshard
