// Values that tell where they came from: a function of rank, buffer and index, so that any
// misplacement shows. Small whole numbers, exact in every dtype and in every sum of 8 ranks.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "zeroshard/base/dtype.h"
#include "zeroshard/base/half.h"
#include "zeroshard/comm/communicator.h"

namespace zeroshard {

inline int value_at(int rank, int buffer, std::int64_t index) {
  return static_cast<int>((rank * 7 + buffer * 5 + index * 3 + index / 11) % 16);
}

// A typed buffer that reads and writes numbers.
class Buffer {
 public:
  Buffer(std::int64_t count, DType dtype)
      : count_(count), dtype_(dtype), bytes_(static_cast<std::size_t>(count * bytes_of(dtype))) {}

  static Buffer of_rank(int rank, int buffer, std::int64_t count, DType dtype) {
    Buffer filled(count, dtype);
    for (std::int64_t i = 0; i < count; ++i) filled.set(i, value_at(rank, buffer, i));
    return filled;
  }

  std::int64_t count() const { return count_; }
  Piece piece() { return {bytes_.data(), count_, dtype_, DeviceKind::cpu}; }
  ConstPiece read() const { return {bytes_.data(), count_, dtype_, DeviceKind::cpu}; }

  void set(std::int64_t index, double value) {
    switch (dtype_) {
      case DType::fp32: return put(index, static_cast<float>(value));
      case DType::bf16: return put(index, fp32_to_bf16(static_cast<float>(value)));
      case DType::fp16: return put(index, fp32_to_fp16(static_cast<float>(value)));
      case DType::int32: return put(index, static_cast<std::int32_t>(value));
      case DType::uint8: return put(index, static_cast<std::uint8_t>(value));
    }
  }

  double get(std::int64_t index) const {
    switch (dtype_) {
      case DType::fp32: return take<float>(index);
      case DType::bf16: return bf16_to_fp32(take<std::uint16_t>(index));
      case DType::fp16: return fp16_to_fp32(take<std::uint16_t>(index));
      case DType::int32: return take<std::int32_t>(index);
      case DType::uint8: return take<std::uint8_t>(index);
    }
    return 0;
  }

  bool operator==(const Buffer&) const = default;

 private:
  template <typename T>
  void put(std::int64_t index, T value) {
    std::memcpy(bytes_.data() + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
  }
  template <typename T>
  T take(std::int64_t index) const {
    T value;
    std::memcpy(&value, bytes_.data() + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return value;
  }

  std::int64_t count_;
  DType dtype_;
  std::vector<std::byte> bytes_;
};

}  // namespace zeroshard
