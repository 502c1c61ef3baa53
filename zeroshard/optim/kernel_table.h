// Fills a table of kernels.h with the loops of loops.h for one kind of lanes.
#pragma once

#include "zeroshard/optim/kernels.h"
#include "zeroshard/optim/loops.h"

namespace zeroshard::kernels {

template <typename Lanes>
struct TableOf {
  static constexpr DType kFp32 = DType::fp32, kBf16 = DType::bf16, kFp16 = DType::fp16;

  template <typename Coefficients>
  static constexpr UpdateTable<Coefficients> updates() {
    return {{{Update<Lanes, Coefficients, kFp32, kFp32>::run,
              Update<Lanes, Coefficients, kFp32, kBf16>::run,
              Update<Lanes, Coefficients, kFp32, kFp16>::run},
             {Update<Lanes, Coefficients, kBf16, kFp32>::run,
              Update<Lanes, Coefficients, kBf16, kBf16>::run,
              Update<Lanes, Coefficients, kBf16, kFp16>::run},
             {Update<Lanes, Coefficients, kFp16, kFp32>::run,
              Update<Lanes, Coefficients, kFp16, kBf16>::run,
              Update<Lanes, Coefficients, kFp16, kFp16>::run}}};
  }

  template <bool kAdds>
  static constexpr void transfers(void (*(&table)[kFloatDtypes][kFloatDtypes])(void*, const void*,
                                                                               std::int64_t)) {
    transfers_to<kFp32, kAdds>(table[0]);
    transfers_to<kBf16, kAdds>(table[1]);
    transfers_to<kFp16, kAdds>(table[2]);
  }

  template <DType kTo, bool kAdds>
  static constexpr void transfers_to(void (*(&row)[kFloatDtypes])(void*, const void*,
                                                                  std::int64_t)) {
    row[0] = Transfer<Lanes, kTo, kFp32, kAdds>::run;
    row[1] = Transfer<Lanes, kTo, kBf16, kAdds>::run;
    row[2] = Transfer<Lanes, kTo, kFp16, kAdds>::run;
  }

  static constexpr Kernels all() {
    static_assert(static_cast<int>(kFp32) == 0 && static_cast<int>(kBf16) == 1 &&
                  static_cast<int>(kFp16) == 2);
    Kernels kernels{
        .adam = updates<AdamCoefficients>(),
        .sgd = updates<SgdCoefficients>(),
        .momentum = updates<MomentumCoefficients>(),
        .lion = updates<LionCoefficients>(),
        .adagrad = updates<AdagradCoefficients>(),
        .sum_of_squares = {SumOfSquares<Lanes, kFp32>::run, SumOfSquares<Lanes, kBf16>::run,
                           SumOfSquares<Lanes, kFp16>::run},
        .convert = {},
        .accumulate = {}};
    transfers<false>(kernels.convert);
    transfers<true>(kernels.accumulate);
    return kernels;
  }
};

}  // namespace zeroshard::kernels
