// Values that tell where they came from: a function of rank, buffer and index, so that any
// misplacement shows. Small whole numbers, exact in every dtype and in every sum of 8 ranks.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "zeroshard/base/dtype.h"
#include "zeroshard/base/half.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/device/buffer.h"
#include "zeroshard/device/stream.h"

namespace zeroshard {

inline int value_at(int rank, int buffer, std::int64_t index) {
  return static_cast<int>((rank * 7 + buffer * 5 + index * 3 + index / 11) % 16);
}

// A typed buffer that reads and writes numbers. On an accelerator the bytes are sent there, on the
// current stream and without waiting, when somebody asks for the memory; and come back, waited for,
// when somebody asks for a number.
class RankBuffer {
 public:
  RankBuffer(std::int64_t count, DType dtype, Device device = kCpu)
      : count_(count),
        dtype_(dtype),
        device_(device),
        bytes_(static_cast<std::size_t>(count * bytes_of(dtype))) {
    if (device != kCpu) memory_ = Buffer(device, count * bytes_of(dtype));
  }

  static RankBuffer of_rank(int rank, int buffer, std::int64_t count, DType dtype,
                            Device device = kCpu) {
    RankBuffer filled(count, dtype, device);
    for (std::int64_t i = 0; i < count; ++i) filled.set(i, value_at(rank, buffer, i));
    return filled;
  }

  std::int64_t count() const { return count_; }
  Piece piece() { return {memory(), count_, dtype_, device_.kind}; }
  ConstPiece read() const { return {memory(), count_, dtype_, device_.kind}; }

  void set(std::int64_t index, double value) {
    fetch();
    switch (dtype_) {
      case DType::fp32: return put(index, static_cast<float>(value));
      case DType::bf16: return put(index, fp32_to_bf16(static_cast<float>(value)));
      case DType::fp16: return put(index, fp32_to_fp16(static_cast<float>(value)));
      case DType::int32: return put(index, static_cast<std::int32_t>(value));
      case DType::uint8: return put(index, static_cast<std::uint8_t>(value));
    }
  }

  double get(std::int64_t index) const {
    fetch();
    switch (dtype_) {
      case DType::fp32: return take<float>(index);
      case DType::bf16: return bf16_to_fp32(take<std::uint16_t>(index));
      case DType::fp16: return fp16_to_fp32(take<std::uint16_t>(index));
      case DType::int32: return take<std::int32_t>(index);
      case DType::uint8: return take<std::uint8_t>(index);
    }
    return 0;
  }

 private:
  void* memory() const {
    if (device_ == kCpu) return bytes_.data();
    if (!sent_) {
      const Stream stream = Stream::current(device_);
      copy_bytes(stream, memory_.data(), device_, bytes_.data(), kCpu, memory_.bytes());
      memory_.wrote(stream);
      sent_ = true;
    }
    return memory_.data();
  }

  void fetch() const {
    if (!sent_) return;
    const Stream stream = Stream::current(device_);
    copy_bytes(stream, bytes_.data(), kCpu, memory_.data(), device_, memory_.bytes());
    stream.synchronize();
    sent_ = false;
  }

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
  Device device_;
  mutable std::vector<std::byte> bytes_;
  mutable Buffer memory_;
  mutable bool sent_ = false;
};

}  // namespace zeroshard
