// Updates that can be taken back, bit for bit: for those that begin before it is known whether they
// may be done at all.
//
//   UndoRecord undo = UndoRecord::over(memory, numel, words);   // layout/undo_record.h: how large
//   undo.begin();
//   update_revocably(options, span, scalars, undo.at(0), pool);
//   revoke_update(options, span, scalars, undo.at(0), pool);    // everything is as it was
//   update_left_out(options, span, scalars, undo.at(0), pool);  // or: the rest of it, if any
//
// Masters and moments move as in update_span(), to the same bits; no 16-bit parameter is written,
// because nobody may see it yet. From the new values and the gradient the old ones are foretold by
// the rule's inverse (inverse_rules.h), and the record keeps how far off that is: a byte per word
// for all but a few. What needs more than the record has room for is left out, block by block. The
// gradient stays as it is until the update is settled.
#pragma once

#include <cstddef>
#include <cstdint>

#include "zeroshard/layout/undo_record.h"
#include "zeroshard/optim/update.h"
#include "zeroshard/optim/update_pointers.h"

namespace zeroshard {

// Over memory of undo_layout(numel, words).bytes that somebody else keeps, aligned to 64 bytes.
class UndoRecord {
 public:
  UndoRecord() = default;
  static UndoRecord over(void* memory, std::int64_t numel, int words);

  explicit operator bool() const { return memory_ != nullptr; }
  // Nothing is recorded yet.
  void begin() const;
  // For a span that begins at this element, a multiple of kUndoAlignment.
  UndoPointers at(std::int64_t element) const;

 private:
  std::byte* memory_ = nullptr;
  UndoLayout layout_ = {};
};

// The words that an update changes: the master, and moments_per_parameter().
int words_per_parameter(const OptimizerOptions& options);

// Masters must be whole, and `span.parameter` is only asked for its dtype.
void update_revocably(const OptimizerOptions& options, const UpdateSpan& span,
                      const StepScalars& scalars, const UndoPointers& undo, ThreadPool& pool,
                      Isa isa = best_isa());
// With the same arguments.
void revoke_update(const OptimizerOptions& options, const UpdateSpan& span,
                   const StepScalars& scalars, const UndoPointers& undo, ThreadPool& pool,
                   Isa isa = best_isa());
void update_left_out(const OptimizerOptions& options, const UpdateSpan& span,
                     const StepScalars& scalars, const UndoPointers& undo, ThreadPool& pool,
                     Isa isa = best_isa());

}  // namespace zeroshard
