// In place of transfers_avx2.cpp and transfers_avx512.cpp where the target is no x86.
#include "zeroshard/numeric/transfers.h"

namespace zeroshard {

const Transfers* avx2_transfers() { return nullptr; }
const Transfers* avx512_transfers() { return nullptr; }

}  // namespace zeroshard
