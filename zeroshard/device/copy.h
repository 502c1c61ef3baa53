// Bytes from one device to another, in a stream's order.
//
//   copy_bytes(down, staging.data(), kCpu, shard.data(), shard.device(), shard.bytes());
//   down.synchronize();  // now staging may be read
#pragma once

#include <cstdint>

#include "zeroshard/device/stream.h"

namespace zeroshard {

// Returns at once where the stream does (an accelerator may hold the caller up while an end is host
// memory that is not pinned). Both ends stay as they are until the stream has come this far. A
// stream of the CPU copies between any devices; an accelerator's needs an end of its own.
void copy_bytes(const Stream& stream, void* to, Device to_device, const void* from,
                Device from_device, std::int64_t bytes);

}  // namespace zeroshard
