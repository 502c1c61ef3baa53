// Fills a table of kernels.h with the loops of loops.h for one kind of lanes.
#pragma once

#include "zeroshard/optim/kernels.h"
#include "zeroshard/optim/loops.h"
#include "zeroshard/optim/undo_loops.h"

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
              Update<Lanes, Coefficients, kFp16, kFp16>::run}},
            {Update<Lanes, Coefficients, kFp32, kBf16, true>::run,
             Update<Lanes, Coefficients, kBf16, kBf16, true>::run,
             Update<Lanes, Coefficients, kFp16, kBf16, true>::run},
            {{UndoLoops<Lanes, Coefficients, kFp32>::template record<false>,
              UndoLoops<Lanes, Coefficients, kFp32>::template record<true>},
             {UndoLoops<Lanes, Coefficients, kBf16>::template record<false>,
              UndoLoops<Lanes, Coefficients, kBf16>::template record<true>},
             {UndoLoops<Lanes, Coefficients, kFp16>::template record<false>,
              UndoLoops<Lanes, Coefficients, kFp16>::template record<true>}},
            {UndoLoops<Lanes, Coefficients, kFp32>::revoke,
             UndoLoops<Lanes, Coefficients, kBf16>::revoke,
             UndoLoops<Lanes, Coefficients, kFp16>::revoke}};
  }

  static constexpr Kernels all() {
    static_assert(static_cast<int>(kFp32) == 0 && static_cast<int>(kBf16) == 1 &&
                  static_cast<int>(kFp16) == 2);
    return {.adam = updates<AdamCoefficients>(),
            .sgd = updates<SgdCoefficients>(),
            .momentum = updates<MomentumCoefficients>(),
            .lion = updates<LionCoefficients>(),
            .adagrad = updates<AdagradCoefficients>(),
            .sum_of_squares = {SumOfSquares<Lanes, kFp32>::run, SumOfSquares<Lanes, kBf16>::run,
                               SumOfSquares<Lanes, kFp16>::run}};
  }
};

}  // namespace zeroshard::kernels
