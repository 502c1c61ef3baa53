// How a kernel cuts arrays of any lengths and places into equal shares: a block of threads takes
// one chunk of one array. The host numbers the chunks through all arrays of a table, and a block
// finds its own by search, so that one launch serves any number of arrays.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "zeroshard/base/dtype.h"

namespace zeroshard {

inline constexpr std::int64_t kChunk = 8192;  // elements
inline constexpr int kChunkThreads = 256;

// Elements are taken four at a time where all arrays of an entry allow it: the first `head` of them
// and the last few go one by one.
struct ArrayCut {
  std::int64_t count = 0;
  std::int64_t first_chunk = 0;  // among all chunks of the table
  std::int32_t head = 0;
  bool by_fours = false;
};

struct PlacedArray {
  const void* data;
  DType dtype;
};

// The cut of arrays that are walked together; a null one does not matter.
ArrayCut cut_arrays(std::int64_t count, std::int64_t first_chunk,
                    std::initializer_list<PlacedArray> arrays);

// Where the next array of the table has its first chunk.
std::int64_t end_chunk(const ArrayCut& cut);

}  // namespace zeroshard
