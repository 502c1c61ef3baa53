// The loops that carry elements from one array into another, one table of functions per instruction
// set.
//
// Each table is made in a source of its own, compiled for its instruction set (transfers_avx2.cpp
// and so on; optim/kernels_*.cpp likewise). Such a source must not emit a function that others emit
// too (an inline function or a template instance of the standard library, say): the linker keeps
// one copy, perhaps the one this CPU cannot run. So they include plain structs, and templates over
// their own lanes, and no more.
#pragma once

#include <cstdint>

#include "zeroshard/base/dtype.h"
#include "zeroshard/numeric/isa.h"

namespace zeroshard {

// fp32, bf16 and fp16 index the tables below and those of optim/kernels.h: the first three of
// DType.
inline constexpr int kFloatDtypes = 3;

// [to's dtype][from's dtype], as in convert.h.
struct Transfers {
  using Loop = void (*)(void* to, const void* from, std::int64_t count);

  Loop convert[kFloatDtypes][kFloatDtypes];
  Loop accumulate[kFloatDtypes][kFloatDtypes];
};

// Null where the build lacks them (no_avx.cpp). Ask is_available() first.
const Transfers* scalar_transfers();
const Transfers* avx2_transfers();
const Transfers* avx512_transfers();

// Fails a check where `isa` is not available.
const Transfers& transfers_of(Isa isa);

// The dtype's place in the tables. Fails a check where it is not a float.
int float_index(DType dtype);

}  // namespace zeroshard
