#include "zeroshard/optim/undo.h"

#include <algorithm>
#include <array>
#include <bit>

#include "zeroshard/base/check.h"
#include "zeroshard/numeric/float_environment.h"
#include "zeroshard/optim/check_span.h"
#include "zeroshard/optim/choose_table.h"
#include "zeroshard/optim/span_part.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kBlocksAtOnce = 32;  // as long as a chunk of update_span()

UpdatePointers pointers_to(const UpdateSpan& span) {
  return {.gradient = span.gradient,
          .master = span.master,
          .master_low = nullptr,
          .moments = {span.moments[0], span.moments[1]},
          .parameter = nullptr,
          .streams_parameter = false};
}

enum class Work { record, revoke };

struct UndoWork {
  const Kernels& kernels;
  const UpdateSpan& span;
  const StepScalars& scalars;
  const UndoPointers& undo;
  ThreadPool& pool;
};

void run(Work work, const OptimizerOptions& options, const UndoWork& on) {
  const FloatEnvironment environment(FloatEnvironment::Subnormals::zero);  // for the coefficients
  const UpdateSpan& span = on.span;
  const auto gradient = static_cast<int>(span.gradient_dtype);
  const bool settles = span.parameter != nullptr && span.parameter_dtype == DType::bf16;
  const UpdatePointers at = pointers_to(span);
  const std::int64_t blocks = (span.count + kUndoBlock - 1) / kUndoBlock;
  choose_table(options, on.kernels, on.scalars, [&](const auto& table, const auto& coefficients) {
    const auto loop =
        work == Work::record ? table.record[gradient][settles ? 1 : 0] : table.revoke[gradient];
    on.pool.parallel_for(blocks, kBlocksAtOnce, [&](std::int64_t first, std::int64_t last) {
      const FloatEnvironment flushing(FloatEnvironment::Subnormals::zero);
      loop(coefficients, at, on.undo, first * kUndoBlock, std::min(last * kUndoBlock, span.count));
    });
  });
}

// An fp32 parameter elsewhere is a copy of its master.
UpdateSpan without_fp32_parameter(UpdateSpan span) {
  if (span.parameter_dtype == DType::fp32) span.parameter = nullptr;
  return span;
}

void check_undo(const OptimizerOptions& options, const UpdateSpan& span, const UndoPointers& undo) {
  check_span(options, without_fp32_parameter(span));
  ZS_CHECK(span.master != nullptr, "an update that can be taken back has whole masters");
  ZS_CHECK_EQ(undo.first % kUndoAlignment, 0, "a recorded span's first element");
}

// The words of escapes over what the bytes have made of them.
void restore_escapes(const UpdateSpan& span, const UndoPointers& undo, int words) {
  for (std::int64_t i = 0; i < *undo.used; ++i) {
    const UndoEscape& escape = undo.escapes[i];
    const std::int64_t at = escape.element - undo.first;
    if (at < 0 || at >= span.count) continue;  // of another span of the record
    span.master[at] = std::bit_cast<float>(escape.words[0]);
    for (int k = 1; k < words; ++k) {
      span.moments[static_cast<std::size_t>(k - 1)][at] = std::bit_cast<float>(escape.words[k]);
    }
  }
}

}  // namespace

UndoRecord UndoRecord::over(void* memory, std::int64_t numel, int words) {
  ZS_CHECK(can_be_undone(numel), "a record of {} elements", numel);
  UndoRecord record;
  record.memory_ = static_cast<std::byte*>(memory);
  record.layout_ = undo_layout(numel, words);
  record.begin();
  return record;
}

void UndoRecord::begin() const { *reinterpret_cast<std::int64_t*>(memory_) = 0; }

UndoPointers UndoRecord::at(std::int64_t element) const {
  return {.deltas = reinterpret_cast<std::int8_t*>(memory_ + layout_.deltas) + element,
          .stride = layout_.stride,
          .left_out = reinterpret_cast<std::uint8_t*>(memory_ + layout_.left_out) +
                      element / kUndoAlignment,
          .escapes = reinterpret_cast<UndoEscape*>(memory_ + layout_.escapes),
          .capacity = layout_.escape_capacity,
          .used = reinterpret_cast<std::int64_t*>(memory_),
          .first = element};
}

int words_per_parameter(const OptimizerOptions& options) {
  return 1 + moments_per_parameter(options);
}

void update_revocably(const OptimizerOptions& options, const UpdateSpan& span,
                      const StepScalars& scalars, const UndoPointers& undo, ThreadPool& pool,
                      Isa isa) {
  if (span.count == 0) return;
  check_undo(options, span, undo);
  run(Work::record, options, {kernels_of(isa), span, scalars, undo, pool});
}

void revoke_update(const OptimizerOptions& options, const UpdateSpan& span,
                   const StepScalars& scalars, const UndoPointers& undo, ThreadPool& pool,
                   Isa isa) {
  if (span.count == 0) return;
  check_undo(options, span, undo);
  run(Work::revoke, options, {kernels_of(isa), span, scalars, undo, pool});
  restore_escapes(span, undo, words_per_parameter(options));
}

// The 16-bit parameters go nowhere: their dtype settles the masters.
void update_left_out(const OptimizerOptions& options, const UpdateSpan& span,
                     const StepScalars& scalars, const UndoPointers& undo, ThreadPool& pool,
                     Isa isa) {
  std::array<std::uint16_t, kUndoBlock> nowhere;
  for (std::int64_t begin = 0; begin < span.count; begin += kUndoBlock) {
    if (undo.left_out[begin / kUndoAlignment] == 0) continue;
    const std::int64_t count = std::min(kUndoBlock, span.count - begin);
    UpdateSpan block = without_fp32_parameter(part_of(span, begin, count));
    if (block.parameter != nullptr) block.parameter = nowhere.data();
    update_span(options, block, scalars, pool, isa);
  }
}

}  // namespace zeroshard
