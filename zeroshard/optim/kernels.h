// The loops over elements, one table of functions per instruction set.
//
// Each table is made in a source of its own, compiled for its instruction set (kernels_avx2.cpp and
// so on). Such a source must not emit a function that others emit too (an inline function or a
// template instance of the standard library, say): the linker keeps one copy, perhaps the one this
// CPU cannot run. So they include plain structs, and templates over their own lanes, and no more.
#pragma once

#include <cstdint>

#include "zeroshard/base/dtype.h"
#include "zeroshard/optim/coefficients.h"
#include "zeroshard/optim/isa.h"

namespace zeroshard {

// fp32, bf16 and fp16 index the tables below: the first three of DType.
inline constexpr int kFloatDtypes = 3;

// Where a span's states lie. `parameter` is written only by kernels that have a 16-bit one.
struct UpdatePointers {
  const void* gradient;
  float* master;
  float* moments[2];
  void* parameter;
};

// [gradient's dtype][parameter's dtype]; fp32 as the latter: the master is the parameter.
template <typename Coefficients>
struct UpdateTable {
  using Update = void (*)(const Coefficients&, const UpdatePointers&, std::int64_t count);
  Update run[kFloatDtypes][kFloatDtypes];
};

struct Kernels {
  UpdateTable<AdamCoefficients> adam;
  UpdateTable<SgdCoefficients> sgd;
  UpdateTable<MomentumCoefficients> momentum;
  UpdateTable<LionCoefficients> lion;
  UpdateTable<AdagradCoefficients> adagrad;
  // Of one block (sum_of_squares.h).
  double (*sum_of_squares[kFloatDtypes])(const void* data, std::int64_t count);
  // [to's dtype][from's dtype], as in convert.h.
  void (*convert[kFloatDtypes][kFloatDtypes])(void* to, const void* from, std::int64_t count);
  void (*accumulate[kFloatDtypes][kFloatDtypes])(void* to, const void* from, std::int64_t count);
};

// Null where the build lacks them (no_avx.cpp). Ask is_available() first.
const Kernels* scalar_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();

// Fails a check where `isa` is not available.
const Kernels& kernels_of(Isa isa);

}  // namespace zeroshard
