// What the update kernels are given: plain structs, which sources of every instruction set and nvcc
// read.
#pragma once

#include <cstdint>

#include "zeroshard/layout/undo_record.h"

namespace zeroshard {

// Where a span's states lie. `parameter` is written only by kernels that have a 16-bit one. Those
// of halved masters have `master_low` in place of `master`, and read `parameter` too.
struct UpdatePointers {
  const void* gradient;
  float* master;
  std::uint16_t* master_low;
  float* moments[2];
  void* parameter;
  // The parameter begins at a cache line and goes past the caches; ignored where it is read too.
  bool streams_parameter;
};

// The record of one span that can be taken back (undo.h).
struct UndoPointers {
  std::int8_t* deltas;  // of word k and element i: deltas[k * stride + i]
  std::int64_t stride;
  std::uint8_t* left_out;  // of the block that begins at element i: left_out[i / kUndoAlignment]
  UndoEscape* escapes;
  std::int64_t capacity;
  std::int64_t* used;  // escapes so far, by all threads
  std::int64_t first;  // the span's first element, counted from the record's
};

}  // namespace zeroshard
