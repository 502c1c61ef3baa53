#include "zeroshard/comm/staged_slot.h"

#include <algorithm>
#include <iterator>

#include "zeroshard/device/copy.h"

namespace zeroshard {
namespace {

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

StagingSlot::StagingSlot(const StagingStreams& streams, int rank, int world_size,
                         std::int64_t bytes)
    : streams_(&streams),
      rank_(rank),
      world_size_(world_size),
      memory_(Buffer::pinned(streams.device, bytes)) {}

StagingSlot::~StagingSlot() {
  brought_down_.wait_until_over();
  brought_up_.wait_until_over();
}

void StagingSlot::bring_down(const Call& call, const Part& part) {
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

// Straight to where the gathered elements of this rank belong.
void StagingSlot::bring_down(const GatherPair& pair, const Slice& slice) {
  if (!uses_device(pair.in)) return;
  const std::int64_t own = rank_ * slice.count * bytes_of(pair.in.dtype);
  to_slot(slice.out_offset + own, pair.in, slice.begin, slice.count);
}

void StagingSlot::bring_down(const ReducePair& pair, const Slice& slice, bool accumulate) {
  const std::int64_t stride = slice.count * bytes_of(pair.in.dtype);
  for (int rank = 0; rank < world_size_; ++rank) {
    to_slot(slice.in_offset + rank * stride, pair.in, rank * pair.out.count + slice.begin,
            slice.count);
  }
  if (accumulate && uses_device(pair.out.read())) {
    to_slot(slice.out_offset, pair.out.read(), slice.begin, slice.count);
  }
}

Handle StagingSlot::send(Communicator& comm, const Call& call, const Part& part) {
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
      inner.gathers.push_back(staged(call.gathers[slice.pair], slice));
    } else if (call.tag.operation == Operation::reduce_scatter) {
      inner.reduces.push_back(staged(call.reduces[slice.pair], slice));
    } else {
      inner.piece = {at(slice.out_offset), slice.count, call.piece.dtype};
    }
  }
  // No element of it: then the caller's memory is not needed either.
  if (uses_device(inner.piece.read())) inner.piece = {nullptr, 0, call.piece.dtype};
  return pass_on(comm, inner);
}

GatherPair StagingSlot::staged(const GatherPair& pair, const Slice& slice) const {
  const Piece out{at(slice.out_offset), slice.count * world_size_, pair.out.dtype};
  const bool direct = !uses_device(pair.in);
  return {direct ? part_of(pair.in, slice.begin, slice.count)
                 : part_of(out.read(), rank_ * slice.count, slice.count),
          out};
}

ReducePair StagingSlot::staged(const ReducePair& pair, const Slice& slice) const {
  const bool direct = !uses_device(pair.out.read());
  return {{at(slice.in_offset), slice.count * world_size_, pair.in.dtype},
          direct ? part_of(pair.out, slice.begin, slice.count)
                 : Piece{at(slice.out_offset), slice.count, pair.out.dtype}};
}

void StagingSlot::bring_up(const Call& call, const Part& part) {
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

void StagingSlot::bring_up(const GatherPair& pair, const Slice& slice) {
  const std::int64_t stride = slice.count * bytes_of(pair.in.dtype);
  const bool in_place = pair.in.data == part_of(pair.out, rank_ * pair.in.count, 0).data;
  for (int rank = 0; rank < world_size_; ++rank) {
    if (rank == rank_ && in_place) continue;
    from_slot(slice.out_offset + rank * stride, pair.out, rank * pair.in.count + slice.begin,
              slice.count);
  }
}

void StagingSlot::to_slot(std::int64_t offset, const ConstPiece& from, std::int64_t begin,
                          std::int64_t count) {
  const ConstPiece elements = part_of(from, begin, count);
  const bool host = !uses_device(from);
  copy_bytes(host ? streams_->host : streams_->down, at(offset), kCpu, elements.data,
             host ? kCpu : streams_->device, elements.bytes());
}

void StagingSlot::from_slot(std::int64_t offset, const Piece& to, std::int64_t begin,
                            std::int64_t count) {
  const Piece elements = part_of(to, begin, count);
  const bool host = !uses_device(to.read());
  copy_bytes(host ? streams_->host : streams_->up, elements.data, host ? kCpu : streams_->device,
             at(offset), kCpu, elements.bytes());
}

std::byte* StagingSlot::at(std::int64_t offset) const {
  return static_cast<std::byte*>(memory_.data()) + offset;
}

}  // namespace zeroshard
