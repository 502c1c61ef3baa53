#include "zeroshard/optim/update.h"

#include "zeroshard/base/check.h"
#include "zeroshard/numeric/float_environment.h"
#include "zeroshard/optim/check_span.h"
#include "zeroshard/optim/choose_table.h"

namespace zeroshard {
namespace {

// 16 Ki elements are some 450 KB of Adam's states: long against waking a thread, short against a
// unit. A multiple of every cache line in elements.
constexpr std::int64_t kUpdateGrain = 1 << 14;

// From so many elements on a span's states fill the caches several times over, so that nobody finds
// its parameters there afterwards: they go to memory directly.
constexpr std::int64_t kStreamedFrom = 1 << 20;

bool streams_parameter(const UpdateSpan& span) {
  constexpr std::uintptr_t kLineBytes = 64;
  return span.count >= kStreamedFrom && span.parameter != nullptr &&
         reinterpret_cast<std::uintptr_t>(span.parameter) % kLineBytes == 0;
}

bool is_float(DType dtype) {
  return dtype == DType::fp32 || dtype == DType::bf16 || dtype == DType::fp16;
}

UpdatePointers pointers_at(const UpdateSpan& span, std::int64_t begin) {
  const auto moved = [begin](auto* array) { return array == nullptr ? nullptr : array + begin; };
  const std::int64_t gradient_bytes = begin * bytes_of(span.gradient_dtype);
  const std::int64_t parameter_bytes = begin * bytes_of(span.parameter_dtype);
  return {.gradient = static_cast<const char*>(span.gradient) + gradient_bytes,
          .master = moved(span.master),
          .master_low = moved(span.master_low),
          .moments = {moved(span.moments[0]), moved(span.moments[1])},
          .parameter = span.parameter == nullptr
                           ? nullptr
                           : static_cast<char*>(span.parameter) + parameter_bytes,
          .streams_parameter = streams_parameter(span)};
}

}  // namespace

void check_span(const OptimizerOptions& options, const UpdateSpan& span) {
  ZS_CHECK_GE(span.count, 0, "span to update");
  ZS_CHECK(is_float(span.gradient_dtype), "gradient is {}", name_of(span.gradient_dtype));
  const bool halved = span.master_low != nullptr;
  ZS_CHECK(span.gradient != nullptr && (span.master != nullptr) != halved,
           "gradient and master must be there, the master whole or in halves");
  ZS_CHECK(!halved || (span.parameter != nullptr && span.parameter_dtype == DType::bf16),
           "the upper half of a master is a bf16 parameter");
  for (int i = 0; i < moments_per_parameter(options); ++i) {
    ZS_CHECK(span.moments[static_cast<std::size_t>(i)] != nullptr, "moment {} is missing", i);
  }
  if (span.parameter == nullptr) return;
  ZS_CHECK(is_float(span.parameter_dtype) && span.parameter_dtype != DType::fp32,
           "an fp32 parameter is its own master; the other is {}", name_of(span.parameter_dtype));
}

void update_span(const OptimizerOptions& options, const UpdateSpan& span,
                 const StepScalars& scalars, ThreadPool& pool, Isa isa) {
  if (span.count == 0) return;
  check_span(options, span);
  const FloatEnvironment environment(FloatEnvironment::Subnormals::zero);  // for the coefficients
  const DType written = span.parameter == nullptr ? DType::fp32 : span.parameter_dtype;
  const auto gradient = static_cast<int>(span.gradient_dtype);
  choose_table(options, kernels_of(isa), scalars, [&](const auto& table, const auto& coefficients) {
    const auto update = span.master_low != nullptr ? table.run_halved[gradient]
                                                   : table.run[gradient][static_cast<int>(written)];
    pool.parallel_for(span.count, kUpdateGrain, [&](std::int64_t begin, std::int64_t end) {
      // The moments of a parameter whose gradient stays away (a rare token's row of an embedding)
      // decay to the smallest subnormal and stay there: 5 to 14 times slower, measured.
      const FloatEnvironment flushing(FloatEnvironment::Subnormals::zero);
      update(coefficients, pointers_at(span, begin), end - begin);
    });
  });
}

}  // namespace zeroshard
