// Fills a table of transfers.h with loops for one kind of lanes.
#pragma once

#include "zeroshard/numeric/elements.h"
#include "zeroshard/numeric/transfers.h"

namespace zeroshard::kernels {

// to = to + from (kAdds) or to = from, element by element, through fp32.
template <typename Lanes, DType kTo, DType kFrom, bool kAdds>
struct Transfer {
  static void lanes_at(void* to, const void* from, std::int64_t i) {
    Lanes value = Elements<Lanes, kFrom>::load(from, i);
    if constexpr (kAdds) value = with_one_nan(Elements<Lanes, kTo>::load(to, i) + value);
    Elements<Lanes, kTo>::store(to, i, value);
  }

  static void run(void* to, const void* from, std::int64_t count) {
    const std::int64_t whole = count - count % Lanes::kWidth;
    for (std::int64_t i = 0; i < whole; i += Lanes::kWidth) lanes_at(to, from, i);
    if (whole == count) return;
    Padded<Lanes, kTo> to_tail;
    Padded<Lanes, kFrom> from_tail;
    to_tail.copy_from(to, whole, count);
    from_tail.copy_from(from, whole, count);
    lanes_at(to_tail.values, from_tail.values, 0);
    to_tail.copy_to(to, whole, count);
  }
};

template <typename Lanes>
struct TransfersOf {
  static constexpr DType kFp32 = DType::fp32, kBf16 = DType::bf16, kFp16 = DType::fp16;

  template <DType kTo, bool kAdds>
  static constexpr void fill_row(Transfers::Loop (&row)[kFloatDtypes]) {
    row[0] = Transfer<Lanes, kTo, kFp32, kAdds>::run;
    row[1] = Transfer<Lanes, kTo, kBf16, kAdds>::run;
    row[2] = Transfer<Lanes, kTo, kFp16, kAdds>::run;
  }

  template <bool kAdds>
  static constexpr void fill(Transfers::Loop (&table)[kFloatDtypes][kFloatDtypes]) {
    fill_row<kFp32, kAdds>(table[0]);
    fill_row<kBf16, kAdds>(table[1]);
    fill_row<kFp16, kAdds>(table[2]);
  }

  static constexpr Transfers all() {
    static_assert(static_cast<int>(kFp32) == 0 && static_cast<int>(kBf16) == 1 &&
                  static_cast<int>(kFp16) == 2);
    Transfers transfers{};
    fill<false>(transfers.convert);
    fill<true>(transfers.accumulate);
    return transfers;
  }
};

}  // namespace zeroshard::kernels
