// The optimizers' updates over a table of segments: rules.h, the text that the CPU runs, with a
// thread's floats for lanes. Compiled without contraction, with subnormals as zero, with IEEE's
// division and root: the same bits as on the CPU.
// nvcc: --ftz=true
#include "zeroshard/numeric/cuda/chunk_loop.cuh"
#include "zeroshard/numeric/cuda/halved_four.cuh"
#include "zeroshard/numeric/elements.h"
#include "zeroshard/numeric/lanes_scalar.h"
#include "zeroshard/optim/device_segment.h"
#include "zeroshard/optim/rules.h"

namespace zeroshard::device_code {

using kernels::Rule;
using kernels::ScalarLanes;

template <typename Coefficients>
struct SegmentUpdater {
  using ThisRule = Rule<ScalarLanes, Coefficients>;
  static constexpr int kMoments = ThisRule::kMoments;

  const ThisRule rule;
  const float factor;
  const UpdatePointers at;
  const DType gradient_dtype, parameter_dtype;

  __device__ explicit SegmentUpdater(const DeviceSegment<Coefficients>& segment)
      : rule(segment.coefficients),
        factor(segment.coefficients.gradient_factor),
        at(segment.at),
        gradient_dtype(segment.gradient_dtype),
        parameter_dtype(segment.parameter_dtype) {}

  // As kernels::Update::lanes_at.
  __device__ void move(float gradient, float& master, float* moments) const {
    ScalarLanes p{master}, lanes[kMoments + 1];
    for (int k = 0; k < kMoments; ++k) lanes[k] = {moments[k]};
    rule(ScalarLanes{gradient} * ScalarLanes{factor}, p, lanes);
    for (int k = 0; k < kMoments; ++k) moments[k] = kernels::with_one_nan(lanes[k]).value;
    master = parameter_dtype == DType::bf16 ? settled_master(p.value)
                                            : kernels::with_one_nan(p).value;
  }

  __device__ bool halved() const { return at.master_low != nullptr; }
  __device__ const std::uint16_t* upper_halves() const {
    return static_cast<const std::uint16_t*>(at.parameter);
  }

  __device__ void one(std::int64_t i) const {
    float moments[kMoments + 1];
    float master = halved() ? joined_master(upper_halves()[i], at.master_low[i]) : at.master[i];
    for (int k = 0; k < kMoments; ++k) moments[k] = at.moments[k][i];
    move(float_at(at.gradient, gradient_dtype, i), master, moments);
    for (int k = 0; k < kMoments; ++k) at.moments[k][i] = moments[k];
    if (halved()) {
      at.master_low[i] = low_half(master);
    } else {
      at.master[i] = master;
    }
    if (parameter_dtype != DType::fp32) put_float(at.parameter, parameter_dtype, i, master);
  }

  __device__ Four load_masters(std::int64_t i) const {
    if (halved()) return load_halved_four(upper_halves() + i, at.master_low + i);
    return load_four(at.master, DType::fp32, i);
  }

  __device__ void four(std::int64_t i) const {
    const Four gradient = load_four(at.gradient, gradient_dtype, i);
    Four master = load_masters(i), moments[kMoments + 1];
    for (int k = 0; k < kMoments; ++k) moments[k] = load_four(at.moments[k], DType::fp32, i);
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      float of_lane[kMoments + 1];
      for (int k = 0; k < kMoments; ++k) of_lane[k] = moments[k].values[lane];
      move(gradient.values[lane], master.values[lane], of_lane);
      for (int k = 0; k < kMoments; ++k) moments[k].values[lane] = of_lane[k];
    }
    for (int k = 0; k < kMoments; ++k) store_four(at.moments[k], DType::fp32, i, moments[k]);
    if (halved()) {
      store_low_four(at.master_low + i, master);
    } else {
      store_four(at.master, DType::fp32, i, master);
    }
    if (parameter_dtype != DType::fp32) store_four(at.parameter, parameter_dtype, i, master);
  }
};

template <typename Coefficients>
__device__ void update_chunk(const DeviceSegment<Coefficients>* table, int count) {
  const DeviceSegment<Coefficients>& segment = table[entry_with(table, count, blockIdx.x)];
  const SegmentUpdater<Coefficients> updater(segment);
  const ArrayCut cut = segment.cut;
  for_each_in_chunk(
      cut, blockIdx.x - cut.first_chunk, [&](std::int64_t i) { updater.one(i); },
      [&](std::int64_t i) { updater.four(i); });
}

}  // namespace zeroshard::device_code

#define ZS_UPDATE_KERNEL(name, Coefficients)                                             \
  extern "C" __global__ void __launch_bounds__(zeroshard::kChunkThreads)                 \
      name(const zeroshard::DeviceSegment<zeroshard::Coefficients>* table, int count) { \
    zeroshard::device_code::update_chunk(table, count);                                  \
  }

ZS_UPDATE_KERNEL(zs_update_adam, AdamCoefficients)
ZS_UPDATE_KERNEL(zs_update_sgd, SgdCoefficients)
ZS_UPDATE_KERNEL(zs_update_momentum, MomentumCoefficients)
ZS_UPDATE_KERNEL(zs_update_lion, LionCoefficients)
ZS_UPDATE_KERNEL(zs_update_adagrad, AdagradCoefficients)
