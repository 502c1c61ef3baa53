// How the engine shards, gathers and reduces.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

namespace zeroshard {

struct ZeroOptions {
  int stage = 0;
  std::int64_t reduce_bucket_numel = 500'000'000;  // gradient elements reduced as one group
  std::optional<bool> overlap_comm;                // unset: on where parameters are sharded
  std::int64_t prefetch_numel = 50'000'000;        // elements gathered ahead; 0: none
  std::int64_t persistence_numel = 100'000;        // units of at most this many are never released
  std::int64_t model_persistence_numel = std::numeric_limits<std::int64_t>::max();  // ... in all
  std::int64_t max_live_numel = 1'000'000'000;  // prefetch stops when this many are gathered
  bool gather_16bit_weights_on_model_save = false;
  bool enable_sanity_checks = false;  // full parameters that nobody said he writes are not written
  bool ignore_unused_parameters = true;  // else a step with one that has no gradient is an error

  bool deterministic = false;
  // A bf16 parameter is the upper half of its master where both lie on one tier.
  bool halved_masters = true;
  std::optional<std::int64_t> device_budget_bytes;
  std::optional<std::int64_t> host_budget_bytes;
  // Start host updates before the norm is known. Unset: not until that is measured on a GPU.
  std::optional<bool> speculative_update;
  bool delayed_update = false;  // one step stale; changes results
  bool debug_poison = false;    // released memory reads as NaN or faults
};

// A delayed update has all the time there is.
inline bool updates_early(const ZeroOptions& zero) {
  return zero.speculative_update.value_or(false) && !zero.delayed_update;
}

}  // namespace zeroshard
