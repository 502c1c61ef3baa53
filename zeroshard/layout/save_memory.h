// Host memory that saving a checkpoint takes. Planner and trainer both ask here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "zeroshard/layout/alignment.h"
#include "zeroshard/layout/unit_layout.h"

namespace zeroshard {

// What is saved goes through a few slots: two are filled and written, and a third keeps one from
// waiting for the other.
inline constexpr std::size_t kSaveSlots = 3;
inline constexpr std::size_t kSaveSlotBytes = 4 << 20;
inline constexpr std::size_t kSaveStagingBytes = kSaveSlots * kSaveSlotBytes;

// A copy of what one rank saves of trained parameters: the master and the moments of its span, in
// fp32, whatever form they have on the device.
inline std::int64_t save_snapshot_bytes(const ModelLayout& model, int moments) {
  const std::int64_t numel = model.totals().trainable_shard_numel;
  return checked_round_up(checked_mul(numel, bytes_of(DType::fp32) * (1 + moments)),
                          kBufferAlignmentBytes);
}

// What of it a run holds, beside what it trains with.
struct SaveMemory {
  bool saves = false;     // the slots
  bool snapshot = false;  // and the copy
};

}  // namespace zeroshard
