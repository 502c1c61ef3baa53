// Copies between device memory and the host tier, beside whatever else the device does.
//
//   CopyStream downwards(device, &ring);
//   const Event there = downwards.down({{g.data(), gradient, bytes, g.pinned()}}, compute);
//   there.synchronize();   // the host waits, then reads `g`; or a stream waits for the event
//
// A copy comes after what its producer has been given so far. Copies of one CopyStream start in the
// order in which they are asked for; who wants both directions at once has one for each. Pinned
// memory is copied straight. Other host memory goes through the slots of a ring, on threads of the
// CopyStream's own: the caller goes on. With the CPU as device all of this is the same, with a
// thread in place of the device's copy engine.
//
// What goes wrong is thrown by whoever waits for the end, and by synchronize(). Both ends of a copy
// stay as they are until its end is over. One thread at a time may ask for copies.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "zeroshard/device/event.h"
#include "zeroshard/tier/staging_ring.h"

namespace zeroshard {

struct TierCopy {
  void* to = nullptr;
  const void* from = nullptr;
  std::int64_t bytes = 0;
  bool pinned = false;  // of the host's end: StateBuffer::pinned()
};

class CopyStream {
 public:
  // Without a ring, memory that is not pinned is copied as the driver can, on a thread. The ring
  // may serve several, and outlives them.
  explicit CopyStream(Device device, StagingRing* ring = nullptr);
  // Waits for all copies.
  ~CopyStream();
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  // From the device to the host, and from the host to the device, behind all that the producer has
  // been given so far. The answer is their end. A list is one operation.
  Event down(std::vector<TierCopy> copies, const Stream& producer);
  Event up(std::vector<TierCopy> copies, const Stream& producer);
  // The same behind an event. Where its device is not known to be this one's, an accelerator is
  // given the copies by a thread, once the event is over.
  Event down(std::vector<TierCopy> copies, const Event& behind = {});
  Event up(std::vector<TierCopy> copies, const Event& behind = {});

  // Blocks until all copies are over, and throws the first error.
  void synchronize();

 private:
  enum class Direction { down, up };
  struct Request {
    Direction direction;
    std::vector<TierCopy> copies;
    Event behind;
  };

  Event start(Request request, bool behind_own_device);
  Event start_later(Request request);
  Event copy(const Request& request);
  Event copy_all(const Request& request);
  void copy_straight(Direction direction, const TierCopy& copy);
  Event copy_through_ring(Direction direction, const TierCopy& copy);
  Event bring_down(const TierCopy& part);
  Event bring_up(const TierCopy& part);
  bool goes_through_ring(const TierCopy& copy) const { return !copy.pinned && ring_ != nullptr; }
  bool uses_ring(const Request& request) const;
  bool needs_thread(const Request& request, bool behind_own_device) const;

  const Device device_;
  StagingRing* const ring_;
  Stream side_;
  Event last_issued_;             // by the thread: later copies wait for their turn
  std::optional<Stream> lander_;  // empties slots that came down
  std::optional<Stream> thread_;  // made by the first who needs it; it uses all the above
};

}  // namespace zeroshard
