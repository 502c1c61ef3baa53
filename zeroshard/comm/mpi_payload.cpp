#include "zeroshard/comm/mpi_payload.h"

#include <algorithm>
#include <cstring>

#include "zeroshard/comm/rank_sum.h"

namespace zeroshard {
namespace {

constexpr int kTagsPerLane = 1023;  // one for greetings, the others in turn for payloads

}  // namespace

int greeting_tag(int lane) { return lane * kTagsPerLane; }

// Few calls are under way at once, so no two of them share a tag.
int payload_tag(int lane, std::uint64_t sequence) {
  return lane * kTagsPerLane + static_cast<int>(1 + sequence % (kTagsPerLane - 1));
}

std::byte* MpiArrivals::at_least(std::int64_t bytes) {
  if (bytes > bytes_) {
    memory_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
    bytes_ = bytes;
  }
  return memory_.get();
}

MpiPayload::MpiPayload(const Call& call, MpiLink& link, Place place, MpiArrivals& arrivals,
                       Counts counts)
    : call_(call),
      link_(link),
      lane_(place.lane),
      chunk_bytes_(place.chunk_bytes),
      counts_(counts) {
  if (!needs_arrivals()) return;
  const std::int64_t of_round = chunk_bytes_ * link_.world_size();
  std::byte* memory = arrivals.at_least(of_round * static_cast<std::int64_t>(rounds_.size()));
  for (Round& round : rounds_) {
    round.arrivals = memory;
    memory += of_round;
  }
}

bool MpiPayload::advance() {
  bool all_done = true;
  for (Round& round : rounds_) {
    while (round.open == 0) {
      if (round.under_way) finish(round);
      round.under_way = false;
      const std::optional<Part> part = next_part();
      if (!part) break;
      post(round, *part);
    }
    all_done = all_done && !round.under_way;
  }
  return all_done;
}

std::size_t MpiPayload::pairs() const {
  if (call_.tag.operation == Operation::all_gather) return call_.gathers.size();
  return call_.tag.operation == Operation::reduce_scatter ? call_.reduces.size() : 1;
}

std::int64_t MpiPayload::slice_count(std::size_t pair) const {
  if (call_.tag.operation == Operation::all_gather) return call_.gathers[pair].in.count;
  if (call_.tag.operation == Operation::reduce_scatter) return call_.reduces[pair].out.count;
  return call_.piece.count;
}

DType MpiPayload::dtype(std::size_t pair) const {
  if (call_.tag.operation == Operation::all_gather) return call_.gathers[pair].in.dtype;
  if (call_.tag.operation == Operation::reduce_scatter) return call_.reduces[pair].in.dtype;
  return call_.piece.dtype;
}

bool MpiPayload::needs_arrivals() const {
  return call_.tag.operation == Operation::reduce_scatter ||
         call_.tag.operation == Operation::all_reduce;
}

// Parts hold whole elements, and no more of them than a chunk has bytes for.
std::optional<MpiPayload::Part> MpiPayload::next_part() {
  while (cursor_.pair < pairs()) {
    const std::int64_t left = slice_count(cursor_.pair) - cursor_.first;
    if (left == 0) {
      cursor_ = {.pair = cursor_.pair + 1};
      continue;
    }
    Part part = cursor_;
    part.count = std::min(left, chunk_bytes_ / bytes_of(dtype(part.pair)));
    cursor_.first += part.count;
    return part;
  }
  return std::nullopt;
}

// Rank r sends to r + 1 first, then to r + 2: at no time do all send to the same one.
void MpiPayload::post(Round& round, const Part& part) {
  round.part = part;
  round.under_way = true;
  const int ranks = link_.world_size();
  const int tag = payload_tag(lane_, call_.tag.sequence);
  const std::int64_t bytes = part.count * bytes_of(dtype(part.pair));
  for (int step = 1; step < ranks; ++step) {
    const int to = (link_.rank() + step) % ranks;
    const int from = (link_.rank() + ranks - step) % ranks;
    int* with_sender = &counts_.open_with[static_cast<std::size_t>(from)];
    int* with_receiver = &counts_.open_with[static_cast<std::size_t>(to)];
    if (std::byte* data = incoming(round, from)) {
      link_.receive(data, bytes, {from, tag}, {&round.open, with_sender, &counts_.ended});
    }
    if (const std::byte* data = outgoing(part, to)) {
      link_.send(data, bytes, {to, tag}, {&round.open, with_receiver, &counts_.ended});
    }
  }
}

const std::byte* MpiPayload::outgoing(const Part& part, int peer) const {
  switch (call_.tag.operation) {
    case Operation::all_gather: {
      const ConstPiece& in = call_.gathers[part.pair].in;
      return element_at(in.data, part.first, in.dtype);
    }
    case Operation::reduce_scatter: {
      const ReducePair& pair = call_.reduces[part.pair];
      return element_at(pair.in.data, peer * pair.out.count + part.first, pair.in.dtype);
    }
    case Operation::broadcast:
      if (link_.rank() != call_.root) return nullptr;
      [[fallthrough]];
    default: return element_at(call_.piece.read().data, part.first, call_.piece.dtype);
  }
}

std::byte* MpiPayload::incoming(const Round& round, int peer) const {
  const Part& part = round.part;
  if (needs_arrivals()) return round.arrivals + peer * chunk_bytes_;
  if (call_.tag.operation == Operation::all_gather) {
    const GatherPair& pair = call_.gathers[part.pair];
    return element_at(pair.out.data, peer * pair.in.count + part.first, pair.out.dtype);
  }
  return peer == call_.root ? element_at(call_.piece.data, part.first, call_.piece.dtype) : nullptr;
}

std::vector<const void*> MpiPayload::addends(const Round& round, const std::byte* own) const {
  std::vector<const void*> by_rank;
  for (int rank = 0; rank < link_.world_size(); ++rank) {
    by_rank.push_back(rank == link_.rank() ? own : round.arrivals + rank * chunk_bytes_);
  }
  return by_rank;
}

void MpiPayload::finish(const Round& round) const {
  const Part& part = round.part;
  if (call_.tag.operation == Operation::all_gather) {
    const GatherPair& pair = call_.gathers[part.pair];
    const std::byte* in = element_at(pair.in.data, part.first, pair.in.dtype);
    std::byte* own = incoming(round, link_.rank());
    const auto bytes = static_cast<std::size_t>(part.count * bytes_of(pair.in.dtype));
    if (own != in) std::memcpy(own, in, bytes);
  } else if (call_.tag.operation == Operation::reduce_scatter) {
    const ReducePair& pair = call_.reduces[part.pair];
    const Piece out{element_at(pair.out.data, part.first, pair.out.dtype), part.count,
                    pair.out.dtype};
    sum_in_rank_order(addends(round, outgoing(part, link_.rank())), pair.in.dtype, out,
                      call_.reduce_options);
  } else if (call_.tag.operation == Operation::all_reduce) {
    // It works in place: the part has been sent to everyone by now.
    Piece piece = call_.piece;
    piece.data = element_at(piece.data, part.first, piece.dtype);
    piece.count = part.count;
    combine(addends(round, static_cast<const std::byte*>(piece.data)), piece, call_.op);
  }
}

}  // namespace zeroshard
