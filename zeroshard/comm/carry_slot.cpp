#include "zeroshard/comm/carry_slot.h"

#include <algorithm>
#include <iterator>

#include "zeroshard/base/check.h"
#include "zeroshard/device/stream.h"

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
  // A slice of this many elements, and of no more, fits into `room`.
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

ConstPiece part_of(const ConstPiece& piece, std::int64_t begin, std::int64_t count) {
  const auto* data = static_cast<const std::byte*>(piece.data) + begin * bytes_of(piece.dtype);
  return {data, count, piece.dtype, piece.device};
}

Piece part_of(const Piece& piece, std::int64_t begin, std::int64_t count) {
  auto* data = static_cast<std::byte*>(piece.data) + begin * bytes_of(piece.dtype);
  return {data, count, piece.dtype, piece.device};
}

// The worker copies such input itself, and so must have the slot to itself.
bool copies_host_input(const Call& call) {
  return std::ranges::any_of(call.reduces, [](const ReducePair& pair) {
    return !uses_device(pair.in) && uses_device(pair.out.read());
  });
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
        ZS_CHECK_GT(used, 0, "a slot is smaller than an element of each rank");
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

CarrySlot::CarrySlot(const CarryStreams& streams, int rank, int world_size, std::int64_t bytes)
    : streams_(&streams),
      rank_(rank),
      world_size_(world_size),
      memory_(Buffer::pinned(streams.device, bytes)) {}

CarrySlot::~CarrySlot() {
  brought_down_.wait_until_over();
  brought_up_.wait_until_over();
}

void CarrySlot::bring_down(const Call& call, const Part& part) {
  if (copies_host_input(call)) brought_up_.synchronize();
  streams_->down.wait(brought_up_);
  for (const Slice& slice : part.slices) {
    if (call.tag.operation == Operation::all_gather) {
      bring_down(call.gathers[slice.pair], slice);
    } else if (call.tag.operation == Operation::reduce_scatter) {
      bring_down(call.reduces[slice.pair], slice, call.reduce_options.accumulate);
    } else if (call.tag.operation == Operation::all_reduce || call.root == rank_) {
      to_slot(slice.out_offset, call.piece.read(), slice.begin, slice.count);
    }
  }
  brought_down_.record(streams_->down);
}

// The elements go straight to where the gathered ones of this rank belong.
void CarrySlot::bring_down(const GatherPair& pair, const Slice& slice) {
  if (!uses_device(pair.in)) return;
  const std::int64_t own = rank_ * slice.count * bytes_of(pair.in.dtype);
  to_slot(slice.out_offset + own, pair.in, slice.begin, slice.count);
}

void CarrySlot::bring_down(const ReducePair& pair, const Slice& slice, bool accumulate) {
  const std::int64_t stride = slice.count * bytes_of(pair.in.dtype);
  for (int rank = 0; rank < world_size_; ++rank) {
    to_slot(slice.in_offset + rank * stride, pair.in, rank * pair.out.count + slice.begin,
            slice.count);
  }
  if (accumulate && uses_device(pair.out.read())) {
    to_slot(slice.out_offset, pair.out.read(), slice.begin, slice.count);
  }
}

Handle CarrySlot::send(Communicator& comm, const Call& call, const Part& part) {
  brought_down_.synchronize();
  Call inner{.tag = call.tag,
             .reduce_options = call.reduce_options,
             .piece = call.piece,
             .op = call.op,
             .root = call.root};
  const auto travels_whole = [&](const auto& pair) { return part.first && !uses_device(pair); };
  std::ranges::copy_if(call.gathers, std::back_inserter(inner.gathers), travels_whole);
  std::ranges::copy_if(call.reduces, std::back_inserter(inner.reduces), travels_whole);
  for (const Slice& slice : part.slices) {
    if (call.tag.operation == Operation::all_gather) {
      inner.gathers.push_back(through_slot(call.gathers[slice.pair], slice));
    } else if (call.tag.operation == Operation::reduce_scatter) {
      inner.reduces.push_back(through_slot(call.reduces[slice.pair], slice));
    } else {
      inner.piece = {at(slice.out_offset), slice.count, call.piece.dtype};
    }
  }
  // Where no element of it travels, the caller's memory is not needed either.
  if (uses_device(inner.piece.read())) inner.piece = {nullptr, 0, call.piece.dtype};
  return pass_on(comm, inner);
}

GatherPair CarrySlot::through_slot(const GatherPair& pair, const Slice& slice) const {
  const Piece out{at(slice.out_offset), slice.count * world_size_, pair.out.dtype};
  const bool direct = !uses_device(pair.in);
  return {direct ? part_of(pair.in, slice.begin, slice.count)
                 : part_of(out.read(), rank_ * slice.count, slice.count),
          out};
}

ReducePair CarrySlot::through_slot(const ReducePair& pair, const Slice& slice) const {
  const bool direct = !uses_device(pair.out.read());
  return {{at(slice.in_offset), slice.count * world_size_, pair.in.dtype},
          direct ? part_of(pair.out, slice.begin, slice.count)
                 : Piece{at(slice.out_offset), slice.count, pair.out.dtype}};
}

void CarrySlot::bring_up(const Call& call, const Part& part) {
  for (const Slice& slice : part.slices) {
    if (call.tag.operation == Operation::all_gather) {
      bring_up(call.gathers[slice.pair], slice);
    } else if (call.tag.operation == Operation::reduce_scatter) {
      const Piece& out = call.reduces[slice.pair].out;
      if (uses_device(out.read())) from_slot(slice.out_offset, out, slice.begin, slice.count);
    } else if (call.tag.operation == Operation::all_reduce || call.root != rank_) {
      from_slot(slice.out_offset, call.piece, slice.begin, slice.count);
    }
  }
  brought_up_.record(streams_->up);
}

void CarrySlot::bring_up(const GatherPair& pair, const Slice& slice) {
  const std::int64_t stride = slice.count * bytes_of(pair.in.dtype);
  const bool in_place = pair.in.data == part_of(pair.out, rank_ * pair.in.count, 0).data;
  for (int rank = 0; rank < world_size_; ++rank) {
    if (rank == rank_ && in_place) continue;
    from_slot(slice.out_offset + rank * stride, pair.out, rank * pair.in.count + slice.begin,
              slice.count);
  }
}

void CarrySlot::to_slot(std::int64_t offset, const ConstPiece& from, std::int64_t begin,
                        std::int64_t count) {
  const ConstPiece elements = part_of(from, begin, count);
  const bool host = !uses_device(from);
  copy_bytes(host ? streams_->host : streams_->down, at(offset), kCpu, elements.data,
             host ? kCpu : streams_->device, elements.bytes());
}

void CarrySlot::from_slot(std::int64_t offset, const Piece& to, std::int64_t begin,
                          std::int64_t count) {
  const Piece elements = part_of(to, begin, count);
  const bool host = !uses_device(to.read());
  copy_bytes(host ? streams_->host : streams_->up, elements.data, host ? kCpu : streams_->device,
             at(offset), kCpu, elements.bytes());
}

std::byte* CarrySlot::at(std::int64_t offset) const {
  return static_cast<std::byte*>(memory_.data()) + offset;
}

}  // namespace zeroshard
