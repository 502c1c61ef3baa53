// The optimizers' loops over elements, one table of functions per instruction set, each made in a
// source of its own: see the note in numeric/transfers.h.
#pragma once

#include <cstdint>

#include "zeroshard/base/dtype.h"
#include "zeroshard/numeric/transfers.h"
#include "zeroshard/optim/coefficients.h"
#include "zeroshard/optim/update_pointers.h"

namespace zeroshard {

// [gradient's dtype][parameter's dtype]; fp32 as the latter: the master is the parameter. Halved
// masters have bf16 parameters.
template <typename Coefficients>
struct UpdateTable {
  using Update = void (*)(const Coefficients&, const UpdatePointers&, std::int64_t count);
  Update run[kFloatDtypes][kFloatDtypes];
  Update run_halved[kFloatDtypes];
  // Of updates that can be taken back (undo.h): elements `begin` to `end` of a span. [gradient's
  // dtype][whether the master is a bf16 parameter's].
  using Undoable = void (*)(const Coefficients&, const UpdatePointers&, const UndoPointers&,
                            std::int64_t begin, std::int64_t end);
  Undoable record[kFloatDtypes][2];
  Undoable revoke[kFloatDtypes];
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
