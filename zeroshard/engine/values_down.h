// Updates on the device of units whose parameters are on the host: the kernel writes new 16-bit
// values into a ring of device memory, and they are copied down from there.
#pragma once

#include <vector>

#include "zeroshard/base/thread_pool.h"
#include "zeroshard/comm/handle.h"
#include "zeroshard/engine/slot_ring.h"
#include "zeroshard/optim/update.h"

namespace zeroshard {

class ValuesDown {
 public:
  ValuesDown(const Ring& ring, StateMemory& memory, ThreadPool& pool);

  // One unit's segments, in the order of the device's current stream. The handle's end comes behind
  // the last copy down.
  Handle update(const std::vector<SegmentUpdate>& segments);
  // They are made again when they are used.
  void drop_buffers() { ring_.drop(); }

 private:
  void update(const SegmentUpdate& segment);
  void run(const SegmentUpdate& piece);
  void copy_down(void* parameter, const void* values, std::int64_t bytes);

  const Device device_;
  ThreadPool& pool_;
  SlotRing ring_;
  Stream down_;
};

}  // namespace zeroshard
