// How a call with device memory goes through the host: it is cut into parts, and each part goes
// through a slot, which is pinned memory with the copies that fill and empty it.
//
//   slot.bring_down(call, part);                    // on the down stream; returns at once
//   Handle sent = slot.send(inner, call, part);     // waits for the copies down
//   sent.wait();
//   slot.bring_up(call, part);                      // on the up stream; returns at once
//   slot.brought_up().synchronize();                // the results are in the caller's memory
//
// How a call is cut is pure arithmetic over sizes, so that all ranks cut alike. A slot's own events
// say when its copies are over: a Buffer's would be recorded when somebody asks (stream_uses.h),
// and so wait for the parts that have been given to the streams meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "zeroshard/comm/call.h"
#include "zeroshard/device/buffer.h"

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

// There is at least one part, also where nothing moves: ranks still have to agree on the call.
std::vector<Part> cut_into_parts(const Call& call, int world_size, std::int64_t slot_bytes);

// Calls the operation of `comm` that `call` describes.
Handle pass_on(Communicator& comm, const Call& call);

// All slots of a ring share these.
struct CarryStreams {
  explicit CarryStreams(Device of) : device(of), down(Stream::make(of)), up(Stream::make(of)) {}

  Device device;
  Stream down;  // own streams: copies of different directions overlap
  Stream up;
  Stream host = Stream::current(kCpu);  // the worker itself
};

class CarrySlot {
 public:
  CarrySlot(const CarryStreams& streams, int rank, int world_size, std::int64_t bytes);
  ~CarrySlot();
  CarrySlot(const CarrySlot&) = delete;
  CarrySlot& operator=(const CarrySlot&) = delete;

  void bring_down(const Call& call, const Part& part);
  Handle send(Communicator& comm, const Call& call, const Part& part);
  void bring_up(const Call& call, const Part& part);
  // This event is behind the copies up of the slot's last part.
  const Event& brought_up() const { return brought_up_; }

 private:
  void bring_down(const GatherPair& pair, const Slice& slice);
  void bring_down(const ReducePair& pair, const Slice& slice, bool accumulate);
  void bring_up(const GatherPair& pair, const Slice& slice);
  GatherPair through_slot(const GatherPair& pair, const Slice& slice) const;
  ReducePair through_slot(const ReducePair& pair, const Slice& slice) const;

  // These copy between the slot and `count` elements of the caller's memory from element
  // `begin` on.
  void to_slot(std::int64_t offset, const ConstPiece& from, std::int64_t begin, std::int64_t count);
  void from_slot(std::int64_t offset, const Piece& to, std::int64_t begin, std::int64_t count);
  std::byte* at(std::int64_t offset) const;

  const CarryStreams* streams_;
  int rank_;
  int world_size_;
  Buffer memory_;
  Event brought_down_, brought_up_;
};

}  // namespace zeroshard
