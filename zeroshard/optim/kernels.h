// The optimizers' loops over elements, one table of functions per instruction set, each made in a
// source of its own: see the note in numeric/transfers.h.
#pragma once

#include <cstdint>

#include "zeroshard/base/dtype.h"
#include "zeroshard/numeric/transfers.h"
#include "zeroshard/optim/coefficients.h"

namespace zeroshard {

// Where a span's states lie. `parameter` is written only by kernels that have a 16-bit one. Those
// of halved masters have `master_low` in place of `master`, and read `parameter` too.
struct UpdatePointers {
  const void* gradient;
  float* master;
  std::uint16_t* master_low;
  float* moments[2];
  void* parameter;
  // The parameter begins at a cache line and goes past the caches; ignored where it is read too.
  bool streams_parameter;
};

// [gradient's dtype][parameter's dtype]; fp32 as the latter: the master is the parameter. Halved
// masters have bf16 parameters.
template <typename Coefficients>
struct UpdateTable {
  using Update = void (*)(const Coefficients&, const UpdatePointers&, std::int64_t count);
  Update run[kFloatDtypes][kFloatDtypes];
  Update run_halved[kFloatDtypes];
};

struct Kernels {
  UpdateTable<AdamCoefficients> adam;
  UpdateTable<SgdCoefficients> sgd;
  UpdateTable<MomentumCoefficients> momentum;
  UpdateTable<LionCoefficients> lion;
  UpdateTable<AdagradCoefficients> adagrad;
  // Of one block (sum_of_squares.h).
  double (*sum_of_squares[kFloatDtypes])(const void* data, std::int64_t count);
};

// Null where the build lacks them (no_avx.cpp), which is where it lacks numeric's too. Ask
// is_available() first.
const Kernels* scalar_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();

// Fails a check where `isa` is not available.
const Kernels& kernels_of(Isa isa);

}  // namespace zeroshard
