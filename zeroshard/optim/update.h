// One optimizer step over spans, in one pass: each gradient is read, unscaled and clipped; master
// and moments move; the 16-bit parameter is written.
//
//   const UpdateSpan span{.gradient = g, .gradient_dtype = DType::bf16,
//                         .master = p32, .moments = {m, v},
//                         .parameter = p16, .parameter_dtype = DType::bf16, .count = numel};
//   update_span(AdamOptions{.lr = lr}, span, {.gradient_factor = factor, .step = step}, pool);
//
// Each element is computed by itself, with the same IEEE operations in every instruction set and on
// every accelerator: the result does not depend on how spans are cut, on the number of threads, or
// on the device. NaNs written are one and the same NaN; moments that decay below 1.2e-38 are zero.
// The master of a bf16 parameter is settled (numeric/halved_master.h): one in 131,072 gives its
// last bit away, so that a master in two halves has the same bits as a whole one.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "zeroshard/base/dtype.h"
#include "zeroshard/base/thread_pool.h"
#include "zeroshard/device/device.h"
#include "zeroshard/numeric/isa.h"
#include "zeroshard/optim/coefficients.h"
#include "zeroshard/optim/options.h"

namespace zeroshard {

// Elements with one set of hyper-parameters. The arrays do not overlap. They may lie anywhere; cuts
// between threads fall on whole cache lines where they start on one.
struct UpdateSpan {
  const void* gradient = nullptr;
  DType gradient_dtype = DType::fp32;  // fp32, bf16 or fp16
  float* master = nullptr;
  // In place of `master`: its lower halves, where `parameter`, bf16, is the upper one and is read
  // too. 24 bytes move per parameter for Adam with bf16 gradients instead of 28. See
  // numeric/halved_master.h; numeric/masters.h turns one form into the other.
  std::uint16_t* master_low = nullptr;
  // As many as moments_per_parameter(): Adam's first and second, SGD's momentum, Lion's first,
  // Adagrad's sum. All zero before the first step.
  std::array<float*, 2> moments{};
  // The 16-bit copy of the master, rounded to nearest even. Null: the master is the parameter.
  void* parameter = nullptr;
  DType parameter_dtype = DType::bf16;  // bf16 or fp16
  std::int64_t count = 0;
};

// Over a span of the host.
void update_span(const OptimizerOptions& options, const UpdateSpan& span,
                 const StepScalars& scalars, ThreadPool& pool, Isa isa = best_isa());

// A span of an accelerator with what belongs to it. The options live until update_on() returns.
struct SegmentUpdate {
  const OptimizerOptions* options = nullptr;
  UpdateSpan span = {};
  StepScalars scalars = {};
};

// Over spans of the accelerator `device`, in the order of its current stream: one launch for each
// rule that occurs, whatever the number of segments. Returns at once.
void update_on(Device device, const std::vector<SegmentUpdate>& segments);

// Brings the kernels to an accelerator (KernelModule::load says who must).
void load_update_kernels(Device device);

}  // namespace zeroshard
