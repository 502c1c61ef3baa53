// What loops over elements are made of, written once for all lanes. The last elements of an array,
// too few to fill the lanes, are copied to a padded place and go through the same operations.
#pragma once

#include <cstdint>

#include "zeroshard/base/dtype.h"
#include "zeroshard/base/host_device.h"

namespace zeroshard::kernels {

// An array of `dtype` behind a void pointer. A template over Lanes too, as everything here: see the
// note in transfers.h.
template <typename Lanes, DType dtype>
struct Elements {
  using Type = std::uint16_t;

  static Lanes load(const void* array, std::int64_t i) {
    const auto* from = static_cast<const Type*>(array) + i;
    return dtype == DType::bf16 ? Lanes::load_bf16(from) : Lanes::load_fp16(from);
  }
  static void store(void* array, std::int64_t i, Lanes lanes) {
    auto* to = static_cast<Type*>(array) + i;
    return dtype == DType::bf16 ? lanes.store_bf16(to) : lanes.store_fp16(to);
  }
};

template <typename Lanes>
struct Elements<Lanes, DType::fp32> {
  using Type = float;

  static Lanes load(const void* array, std::int64_t i) {
    return Lanes::load(static_cast<const float*>(array) + i);
  }
  static void store(void* array, std::int64_t i, Lanes lanes) {
    lanes.store(static_cast<float*>(array) + i);
  }
};

// A few elements with zeros behind them, enough to fill the lanes.
template <typename Lanes, DType dtype>
struct Padded {
  using Type = typename Elements<Lanes, dtype>::Type;

  Type values[Lanes::kWidth] = {};

  void copy_from(const void* array, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      values[i - begin] = static_cast<const Type*>(array)[i];
  }
  void copy_to(void* array, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t i = begin; i < end; ++i) static_cast<Type*>(array)[i] = values[i - begin];
  }
};

// Which NaN an operation on two gives depends on their order, which compilers choose. We write one.
template <typename Lanes>
ZS_HOST_DEVICE Lanes with_one_nan(Lanes lanes) {
  return select(is_nan(lanes), Lanes::broadcast(__builtin_nanf("")), lanes);
}

}  // namespace zeroshard::kernels
