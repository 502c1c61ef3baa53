// What an operation is about: its memory, as pointer, count, dtype and device, and the tag by which
// the ranks know it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "zeroshard/base/dtype.h"
#include "zeroshard/device/device.h"

namespace zeroshard {

// Memory that is read. It must stay as it is until the operation's handle says done.
struct ConstPiece {
  const void* data = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::fp32;
  DeviceKind device = DeviceKind::cpu;

  std::int64_t bytes() const { return count * bytes_of(dtype); }
};

// Memory that is written. It is nobody else's until the operation's handle says done.
struct Piece {
  void* data = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::fp32;
  DeviceKind device = DeviceKind::cpu;

  std::int64_t bytes() const { return count * bytes_of(dtype); }
  ConstPiece read() const { return {data, count, dtype, device}; }
};

enum class Operation { all_gather, reduce_scatter, all_reduce, broadcast, barrier };

std::string_view name_of(Operation operation);

// What every rank must agree on before an operation runs. The label is the caller's word for what
// it is doing, usually a unit's name; both labels are shown where ranks disagree.
struct OperationTag {
  std::uint64_t sequence = 0;  // counts the communicator's operations, from 0
  Operation operation = Operation::barrier;
  std::string label = {};
  std::uint64_t shape = 0;  // a hash of counts, dtypes and options
  std::int64_t bytes = 0;   // of the memory it fills or sums; error messages show them

  bool operator==(const OperationTag&) const = default;
};

// The words are like `reduce_scatter "block.3" (operation 17)`.
std::string describe(const OperationTag& tag);

}  // namespace zeroshard
