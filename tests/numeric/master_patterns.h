// The 65,536 masters with one upper half, and what halved_master.h promises of each, spelled out.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

namespace zeroshard::testing {

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

struct MasterPatterns {
  static constexpr std::uint32_t kCount = 1U << 16U;

  std::vector<float> masters = std::vector<float>(kCount);  // all that have the upper half
  std::vector<float> settled = std::vector<float>(kCount);
  std::int64_t ties = 0;  // that move

  void set_upper(std::uint32_t upper) {
    for (std::uint32_t low = 0; low < kCount; ++low) {
      masters[low] = settled[low] = std::bit_cast<float>((upper << 16U) + low);
    }
    const std::uint32_t magnitude = upper & 0x7FFFU;
    const bool finite = magnitude < 0x7F80U;
    ties = finite && upper % 2 == 0 ? 1 : 0;
    if (ties == 1) settled[0x8000] = std::bit_cast<float>((upper << 16U) + 0x7FFFU);
    if (finite) return;
    const auto first_nan = settled.begin() + (magnitude == 0x7F80U ? 1 : 0);  // behind an infinity
    std::fill(first_nan, settled.end(), std::bit_cast<float>(0x7FC00000U));
  }
};

}  // namespace zeroshard::testing
