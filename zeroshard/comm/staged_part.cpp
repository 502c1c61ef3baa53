#include "zeroshard/comm/staged_part.h"

#include <algorithm>

#include "zeroshard/base/check.h"

namespace zeroshard {
namespace {

// Every dtype may lie at a multiple of this.
constexpr std::int64_t kElement = 4;

std::int64_t rounded(std::int64_t bytes) { return (bytes + kElement - 1) / kElement * kElement; }

// One rank's elements of a pair, and the bytes that each of them takes in a slot.
struct Share {
  std::int64_t count = 0;
  std::int64_t in_bytes = 0;
  std::int64_t out_bytes = 0;

  std::int64_t bytes_of_slice(std::int64_t elements) const {
    return rounded(elements * in_bytes) + rounded(elements * out_bytes);
  }
  // The most elements of which the slice fits into `room`.
  std::int64_t fitting(std::int64_t room) const {
    std::int64_t elements = std::min(count, room / (in_bytes + out_bytes));
    while (elements > 0 && bytes_of_slice(elements) > room) --elements;
    return elements;
  }
};

std::vector<Share> shares_of(const Call& call, int world_size) {
  std::vector<Share> shares;
  for (const GatherPair& pair : call.gathers) {
    const std::int64_t count = uses_device(pair) ? pair.in.count : 0;
    shares.push_back({count, 0, world_size * bytes_of(pair.in.dtype)});
  }
  for (const ReducePair& pair : call.reduces) {
    const std::int64_t count = uses_device(pair) ? pair.out.count : 0;
    shares.push_back({count, world_size * bytes_of(pair.in.dtype), bytes_of(pair.out.dtype)});
  }
  const std::int64_t count = uses_device(call.piece.read()) ? call.piece.count : 0;
  shares.push_back({count, 0, bytes_of(call.piece.dtype)});
  return shares;
}

}  // namespace

bool uses_device(const ConstPiece& piece) { return piece.device != DeviceKind::cpu; }

bool uses_device(const GatherPair& pair) {
  return uses_device(pair.in) || uses_device(pair.out.read());
}

bool uses_device(const ReducePair& pair) {
  return uses_device(pair.in) || uses_device(pair.out.read());
}

bool uses_device(const Call& call) {
  const auto on_device = [](const auto& pair) { return uses_device(pair); };
  return uses_device(call.piece.read()) || std::ranges::any_of(call.gathers, on_device) ||
         std::ranges::any_of(call.reduces, on_device);
}

std::int64_t slot_bytes_for(std::int64_t part_bytes, int world_size) {
  return rounded(part_bytes) * (world_size + 2);  // + 2: a bf16 reduction may store fp32
}

std::vector<Part> cut_into_parts(const Call& call, int world_size, std::int64_t slot_bytes) {
  std::vector<Part> parts(1);
  std::int64_t used = 0;
  const std::vector<Share> shares = shares_of(call, world_size);
  for (std::size_t pair = 0; pair < shares.size(); ++pair) {
    Share rest = shares[pair];
    std::int64_t begin = 0;
    while (rest.count > 0) {
      const std::int64_t count = rest.fitting(slot_bytes - used);
      if (count == 0) {
        ZS_CHECK_GT(used, 0, "a staging slot is smaller than an element of each rank");
        parts.emplace_back();
        used = 0;
        continue;
      }
      parts.back().slices.push_back(
          {pair, begin, count, used, used + rounded(count * rest.in_bytes)});
      used += rest.bytes_of_slice(count);
      begin += count;
      rest.count -= count;
    }
  }
  parts.front().first = true;
  parts.back().last = true;
  return parts;
}

Handle pass_on(Communicator& comm, const Call& call) {
  switch (call.tag.operation) {
    case Operation::all_gather: return comm.all_gather_into(call.gathers, call.tag.label);
    case Operation::reduce_scatter:
      return comm.reduce_scatter_into(call.reduces, call.reduce_options, call.tag.label);
    case Operation::all_reduce: return comm.all_reduce(call.piece, call.op, call.tag.label);
    case Operation::broadcast: return comm.broadcast(call.piece, call.root, call.tag.label);
    case Operation::barrier: return comm.barrier(call.tag.label);
  }
  return {};
}

}  // namespace zeroshard
