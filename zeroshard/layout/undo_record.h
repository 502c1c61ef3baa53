// What is written down of an update so that it can be taken back, bit for bit (optim/undo.h): where
// its parts lie in one piece of memory. Planner and engine both count it by this.
#pragma once

#include <cstdint>
#include <limits>

namespace zeroshard {

// An element's word (its master, or a moment) is foretold from what the update has made of it, and
// a byte says how far off that was. Elements of which a byte is not enough have their words written
// down whole, as escapes.
struct UndoEscape {
  std::uint32_t element;  // counted from the record's first
  std::uint32_t words[3];
};

// Blocks of so many elements are updated as a whole or not at all.
inline constexpr std::int64_t kUndoBlock = 512;
// Spans begin at multiples of this.
inline constexpr std::int64_t kUndoAlignment = 64;

// Of `numel` elements of `words` words each: the part's begin in bytes, and all bytes.
struct UndoLayout {
  std::int64_t stride = 0;           // elements from one word's bytes to the next word's
  std::int64_t escape_capacity = 0;  // escapes
  std::int64_t deltas = 0, left_out = 0, escapes = 0, bytes = 0;
};

// Escapes count elements by 32 bits.
constexpr bool can_be_undone(std::int64_t numel) {
  return numel <= std::numeric_limits<std::uint32_t>::max();
}
UndoLayout undo_layout(std::int64_t numel, int words);

}  // namespace zeroshard
