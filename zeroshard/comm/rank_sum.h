// The arithmetic of our reductions: fp32, in rank order, so that the result depends on the addends
// alone and not on how a payload was cut or which rank was late.
#pragma once

#include <vector>

#include "zeroshard/comm/communicator.h"

namespace zeroshard {

// out[i] (+)= scale * (((a0[i] + a1[i]) + a2[i]) + ...), each addend `dtype`, one per rank.
void sum_in_rank_order(const std::vector<const void*>& addends, DType dtype, const Piece& out,
                       const ReduceOptions& options);

// piece[i] = sum or maximum over the addends, which have the piece's count and dtype.
void combine(const std::vector<const void*>& addends, const Piece& piece, ReduceOp op);

}  // namespace zeroshard
