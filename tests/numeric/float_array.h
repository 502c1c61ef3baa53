// Elements of any float dtype, as bytes: at any place modulo an element, with any contents.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/optim/optim_support.h"
#include "zeroshard/numeric/float_at.h"

namespace zeroshard::testing {

struct FloatArray {
  DType dtype;
  std::vector<unsigned char> bytes;

  FloatArray(DType of, std::int64_t count)
      : dtype(of), bytes(static_cast<std::size_t>(count * bytes_of(of)), 0xAB) {}

  std::int64_t count() const { return static_cast<std::int64_t>(bytes.size()) / bytes_of(dtype); }
  const void* at(std::int64_t i) const { return element_at(bytes.data(), i, dtype); }
  void* at(std::int64_t i) { return element_at(bytes.data(), i, dtype); }
  float get(std::int64_t i) const { return float_at(bytes.data(), dtype, i); }
  void set(std::int64_t i, float value) { put_float(bytes.data(), dtype, i, value); }
};

// Every third element is any float or a famous one, the others are any bits of the dtype.
inline FloatArray random_array(Random& random, DType dtype, std::int64_t count) {
  FloatArray array(dtype, count);
  for (auto& byte : array.bytes) byte = static_cast<unsigned char>(random.bits());
  for (std::int64_t i = 0; i < count; i += 3) array.set(i, any_float(random));
  return array;
}

// "" where the bits are equal, or both are NaN.
inline std::string difference(const FloatArray& a, const FloatArray& b) {
  for (std::int64_t i = 0; i < a.count(); ++i) {
    const auto size = static_cast<std::size_t>(bytes_of(a.dtype));
    if (std::memcmp(a.at(i), b.at(i), size) == 0) continue;
    if (std::isnan(a.get(i)) && std::isnan(b.get(i))) continue;
    return fmt::format("[{}] of {}: {} and {}", i, a.count(), a.get(i), b.get(i));
  }
  return {};
}

}  // namespace zeroshard::testing
