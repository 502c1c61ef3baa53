// How a call with device memory is cut into parts that fit into a slot. Pure arithmetic over sizes,
// so that all ranks cut alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "zeroshard/comm/call.h"

namespace zeroshard {

// Elements [begin, begin + count) of every rank's share of one pair, and where they lie in a slot.
// A gather has one region, of all ranks' elements; a reduction has its input (all ranks' elements)
// and its output; all_reduce and broadcast have one region.
struct Slice {
  std::size_t pair = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t in_offset = 0;   // bytes
  std::int64_t out_offset = 0;  // bytes
};

// What goes through the inner communicator as one operation. Pairs that lie in host memory at both
// ends travel whole, with the first part.
struct Part {
  std::vector<Slice> slices = {};
  bool first = false;
  bool last = false;
};

bool uses_device(const ConstPiece& piece);
bool uses_device(const GatherPair& pair);
bool uses_device(const ReducePair& pair);
bool uses_device(const Call& call);

// A slot holds any slice of up to `part_bytes` per rank.
std::int64_t slot_bytes_for(std::int64_t part_bytes, int world_size);

// At least one part, also where nothing moves: ranks still have to agree on the call.
std::vector<Part> cut_into_parts(const Call& call, int world_size, std::int64_t slot_bytes);

// The operation itself, as a call of `comm`.
Handle pass_on(Communicator& comm, const Call& call);

}  // namespace zeroshard
