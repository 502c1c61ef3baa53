// Bytes each rank will hold, by category and tier, before anything is allocated. The arithmetic is
// the layout's own, so the engine's ledger agrees with it to the byte.
//
//   ModelLayout model = equal_units(7'500'000'000, 32, DType::bf16, 64);
//   Footprint need = footprint(model, footprint_options(config, micro_steps));
//   need.total(Tier::device);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "zeroshard/config/config.h"
#include "zeroshard/layout/category.h"
#include "zeroshard/layout/reduction_plan.h"
#include "zeroshard/layout/save_memory.h"
#include "zeroshard/layout/sum_scratch.h"
#include "zeroshard/layout/tier_plan.h"
#include "zeroshard/layout/unit_layout.h"

namespace zeroshard {

class Footprint {
 public:
  void add(Category category, Tier tier, std::int64_t bytes);
  void add_buffer(BufferUse use, Tier tier, std::int64_t bytes);

  std::int64_t bytes(Category category, Tier tier) const;
  // A part of Category::buffers.
  std::int64_t buffers(BufferUse use, Tier tier) const;
  // Everything but the buffers: what the ZeRO paper counts.
  std::int64_t states(Tier tier) const;
  std::int64_t total(Tier tier) const { return states(tier) + bytes(Category::buffers, tier); }

  bool operator==(const Footprint&) const = default;

 private:
  static constexpr std::size_t kTiers = 3;
  std::array<std::array<std::int64_t, kTiers>, kCategories.size()> bytes_{};
  std::array<std::array<std::int64_t, kTiers>, kBufferUses.size()> buffers_{};
};

// What of a Config matters to the footprint.
struct FootprintOptions {
  ZeroOptions zero = {};
  OffloadOptions offload = {};
  PrecisionOptions precision = {};
  int moments_per_parameter = 2;  // Adam
  std::int64_t micro_steps = 1;
  bool accelerator = false;            // its norm keeps sums in the device's memory
  DeviceSums sums = DeviceSums::none;  // who adds up what ranks send
  // In place of the offload's ratio (layout/tier_plan.h), where a budget decides.
  std::optional<std::size_t> first_host_unit = {};
  // What early updates may take of the host to be taken back; unset: what it takes.
  std::optional<std::int64_t> undo_limit_bytes = {};
  SaveMemory save = {};
};

// Takes Adam where the config names no optimizer. The micro-steps are those of the solved batch
// sizes: the config's own accumulation is unset where it follows from the others.
FootprintOptions footprint_options(const Config& config, std::int64_t micro_steps);

// For a model whose groups have the dtype that the precision options give it.
Footprint footprint(const ModelLayout& model, const FootprintOptions& options);

// Which tier the states lie on in that footprint.
TierPlan tier_plan(const ModelLayout& model, const FootprintOptions& options);

GradientTypes gradient_types(const FootprintOptions& options);

// How gradients are reduced together. Stages that keep the local gradient reduce straight out of
// it, where it has the dtype that travels; the others pack buckets.
ReductionPlan reduction_plan(const ModelLayout& model, const FootprintOptions& options);
bool packs_buckets(const FootprintOptions& options);
// Whether reductions run beside backward.
bool overlaps_reductions(const FootprintOptions& options);

// Whether every gradient stays as autograd has made it, until the update.
bool holds_all_gradients(const FootprintOptions& options, int ranks);

// What each rank sends in one step.
std::int64_t bytes_sent_per_step(const ModelLayout& model, const FootprintOptions& options);

// A stand-in for a model of which only the size is known: `units` equal units of one parameter.
ModelLayout equal_units(std::int64_t parameters, int units, DType dtype, int world_size);

}  // namespace zeroshard
