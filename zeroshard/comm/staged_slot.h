// One slot of the staging ring: pinned memory, and the copies that fill and empty it.
//
//   slot.bring_down(call, part);                    // on the down stream; returns at once
//   Handle sent = slot.send(inner, call, part);     // waits for the copies down
//   sent.wait();
//   slot.bring_up(call, part);                      // on the up stream; returns at once
//   slot.brought_up().synchronize();                // the results are in the caller's memory
//
// Its own events say when the copies are over. A Buffer's would be recorded when somebody asks
// (stream_uses.h), and so wait for the parts that have been given to the streams meanwhile.
#pragma once

#include <cstdint>

#include "zeroshard/comm/staged_part.h"
#include "zeroshard/device/buffer.h"

namespace zeroshard {

// What all slots of a ring share.
struct StagingStreams {
  explicit StagingStreams(Device of) : device(of), down(Stream::make(of)), up(Stream::make(of)) {}

  Device device;
  Stream down;  // own streams: copies of different directions overlap
  Stream up;
  Stream host = Stream::current(kCpu);  // the worker itself
};

class StagingSlot {
 public:
  StagingSlot(const StagingStreams& streams, int rank, int world_size, std::int64_t bytes);
  ~StagingSlot();
  StagingSlot(const StagingSlot&) = delete;
  StagingSlot& operator=(const StagingSlot&) = delete;

  void bring_down(const Call& call, const Part& part);
  Handle send(Communicator& comm, const Call& call, const Part& part);
  void bring_up(const Call& call, const Part& part);
  // Behind the last part's copies up.
  const Event& brought_up() const { return brought_up_; }

 private:
  void bring_down(const GatherPair& pair, const Slice& slice);
  void bring_down(const ReducePair& pair, const Slice& slice, bool accumulate);
  void bring_up(const GatherPair& pair, const Slice& slice);
  GatherPair staged(const GatherPair& pair, const Slice& slice) const;
  ReducePair staged(const ReducePair& pair, const Slice& slice) const;

  // Between the slot and `count` elements of the caller's memory from element `begin` on.
  void to_slot(std::int64_t offset, const ConstPiece& from, std::int64_t begin, std::int64_t count);
  void from_slot(std::int64_t offset, const Piece& to, std::int64_t begin, std::int64_t count);
  std::byte* at(std::int64_t offset) const;

  const StagingStreams* streams_;
  int rank_;
  int world_size_;
  Buffer memory_;
  Event brought_down_, brought_up_;
};

}  // namespace zeroshard
