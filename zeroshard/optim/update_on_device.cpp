#include <type_traits>
#include <variant>

#include "zeroshard/base/check.h"
#include "zeroshard/device/kernel_module.h"
#include "zeroshard/numeric/device_table.h"
#include "zeroshard/numeric/float_environment.h"
#include "zeroshard/optim/check_span.h"
#include "zeroshard/optim/device_segment.h"
#include "zeroshard/optim/update.h"

namespace zeroshard {
namespace {

constexpr char kUpdatesPtx[] =
#include "zeroshard/optim/cuda/updates.ptx.inc"
    ;

enum UpdateKernel : std::size_t { kAdam, kSgd, kMomentum, kLion, kAdagrad };

KernelModule& update_kernels() {
  static KernelModule& module =
      *new KernelModule("updates", kUpdatesPtx,
                        {"zs_update_adam", "zs_update_sgd", "zs_update_momentum", "zs_update_lion",
                         "zs_update_adagrad"});
  return module;
}

template <typename Coefficients>
struct SegmentTable {
  std::vector<DeviceSegment<Coefficients>> segments = {};
  std::int64_t chunks = 0;

  void add(const UpdateSpan& span, const Coefficients& coefficients) {
    const DType written = span.parameter == nullptr ? DType::fp32 : span.parameter_dtype;
    const ArrayCut cut = cut_arrays(span.count, chunks,
                                    {{span.gradient, span.gradient_dtype},
                                     {span.master, DType::fp32},
                                     {span.master_low, DType::bf16},
                                     {span.moments[0], DType::fp32},
                                     {span.moments[1], DType::fp32},
                                     {span.parameter, written}});
    segments.push_back({.at = {.gradient = span.gradient,
                               .master = span.master,
                               .master_low = span.master_low,
                               .moments = {span.moments[0], span.moments[1]},
                               .parameter = span.parameter},
                        .cut = cut,
                        .gradient_dtype = span.gradient_dtype,
                        .parameter_dtype = written,
                        .coefficients = coefficients});
    chunks = end_chunk(cut);
  }

  void launch(const Stream& stream, UpdateKernel kernel) const {
    if (segments.empty()) return;
    const auto count = static_cast<int>(segments.size());
    const auto bytes = static_cast<std::int64_t>(segments.size() * sizeof(segments[0]));
    const DeviceTable table(stream, segments.data(), bytes);
    update_kernels().launch(stream, kernel, {.blocks = chunks, .threads = kChunkThreads},
                            {&table.data(), &count});
  }
};

// The segments by rule.
struct RuleTables {
  SegmentTable<AdamCoefficients> adam = {};
  SegmentTable<SgdCoefficients> sgd = {};
  SegmentTable<MomentumCoefficients> momentum = {};
  SegmentTable<LionCoefficients> lion = {};
  SegmentTable<AdagradCoefficients> adagrad = {};

  void add(const SegmentUpdate& update) {
    const auto& [options, span, scalars] = update;
    if (const auto* of_adam = std::get_if<AdamOptions>(options)) {
      adam.add(span, adam_coefficients(*of_adam, scalars));
    } else if (const auto* of_lion = std::get_if<LionOptions>(options)) {
      lion.add(span, lion_coefficients(*of_lion, scalars));
    } else if (const auto* of_adagrad = std::get_if<AdagradOptions>(options)) {
      adagrad.add(span, adagrad_coefficients(*of_adagrad, scalars));
    } else if (const auto& of_sgd = std::get<SgdOptions>(*options); of_sgd.momentum != 0.0) {
      momentum.add(span, momentum_coefficients(of_sgd, scalars));
    } else {
      sgd.add(span, sgd_coefficients(of_sgd, scalars));
    }
  }

  void launch(const Stream& stream) const {
    adam.launch(stream, kAdam);
    sgd.launch(stream, kSgd);
    momentum.launch(stream, kMomentum);
    lion.launch(stream, kLion);
    adagrad.launch(stream, kAdagrad);
  }
};

}  // namespace

void update_on(Device device, const std::vector<SegmentUpdate>& segments) {
  RuleTables tables;
  const FloatEnvironment environment(FloatEnvironment::Subnormals::zero);  // for the coefficients
  for (const SegmentUpdate& segment : segments) {
    if (segment.span.count == 0) continue;
    check_span(*segment.options, segment.span);
    tables.add(segment);
  }
  tables.launch(Stream::current(device));
}

void load_update_kernels(Device device) { update_kernels().load(device); }

}  // namespace zeroshard
