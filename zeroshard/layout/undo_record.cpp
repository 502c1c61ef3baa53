#include "zeroshard/layout/undo_record.h"

#include "zeroshard/layout/checked.h"

namespace zeroshard {

UndoLayout undo_layout(std::int64_t numel, int words) {
  constexpr std::int64_t kCounterBytes = 64;  // of the escapes so far
  constexpr auto kEscapeBytes = static_cast<std::int64_t>(sizeof(UndoEscape));
  // Training needs fewer than one element in 128; small records have room for some more.
  UndoLayout layout{.stride = checked_round_up(numel, kUndoAlignment),
                    .escape_capacity = numel / 128 + 64,
                    .escapes = kCounterBytes};
  layout.deltas =
      checked_round_up(layout.escapes + layout.escape_capacity * kEscapeBytes, kUndoAlignment);
  layout.left_out = layout.deltas + checked_mul(words, layout.stride);
  layout.bytes = checked_round_up(layout.left_out + layout.stride / kUndoAlignment, kUndoAlignment);
  return layout;
}

}  // namespace zeroshard
