// What the models compute on a GPU in one pass where torch makes several (models/device_kernels.h):
// 16-bit tensors, widened to fp32 inside.
// nvcc: --ftz=false
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace zeroshard::device_code {

constexpr int kRowThreads = 512;
constexpr int kWide = 8;  // elements of one access

template <typename T>
struct alignas(16) Eight {
  T values[kWide];
};

__device__ inline float wide(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline float wide(__half value) { return __half2float(value); }
__device__ inline void narrow(float value, __nv_bfloat16& into) { into = __float2bfloat16_rn(value); }
__device__ inline void narrow(float value, __half& into) { into = __float2half_rn(value); }

// A sum of exponentials, as exp(most) times `sum`: no term overflows. NaN stays NaN.
struct ExpSum {
  float most, sum;
};

__device__ inline ExpSum joined(ExpSum one, ExpSum other) {
  const float most = fmaxf(one.most, other.most);
  if (most == -INFINITY) return {most, one.sum + other.sum};
  return {most, one.sum * __expf(one.most - most) + other.sum * __expf(other.most - most)};
}

// Of all threads of the block, in one fixed order. Every thread gets it.
__device__ inline ExpSum of_block(ExpSum mine) {
  __shared__ ExpSum of_warp[kRowThreads / 32];
  for (int step = 16; step > 0; step /= 2) {
    const ExpSum other = {__shfl_down_sync(0xffffffffU, mine.most, step),
                          __shfl_down_sync(0xffffffffU, mine.sum, step)};
    mine = joined(mine, other);
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  ExpSum all = of_warp[0];
  for (int warp = 1; warp < kRowThreads / 32; ++warp) all = joined(all, of_warp[warp]);
  return all;
}

template <typename T>
__device__ ExpSum exponentials_of(const T* row, std::int64_t count, bool aligned) {
  ExpSum mine = {-INFINITY, 0.0F};
  if (!aligned) {
    for (std::int64_t i = threadIdx.x; i < count; i += kRowThreads) {
      mine = joined(mine, {wide(row[i]), 1.0F});
    }
    return mine;
  }
  for (std::int64_t i = threadIdx.x; i < count / kWide; i += kRowThreads) {
    const Eight<T> eight = reinterpret_cast<const Eight<T>*>(row)[i];
    float most = wide(eight.values[0]);
    for (int k = 1; k < kWide; ++k) most = fmaxf(most, wide(eight.values[k]));
    float sum = 0.0F;
    for (int k = 0; k < kWide; ++k) sum += __expf(wide(eight.values[k]) - most);
    mine = joined(mine, {most, sum});
  }
  return mine;
}

// Writes the gradient of the row's loss over its logits.
template <typename T>
__device__ void differentiate_row(T* row, std::int64_t count, std::int64_t target, float log_sum,
                                  float scale, bool aligned) {
  const auto gradient = [&](T logit, std::int64_t i) {
    return (__expf(wide(logit) - log_sum) - (i == target ? 1.0F : 0.0F)) * scale;
  };
  if (!aligned) {
    for (std::int64_t i = threadIdx.x; i < count; i += kRowThreads) {
      narrow(gradient(row[i], i), row[i]);
    }
    return;
  }
  for (std::int64_t i = threadIdx.x; i < count / kWide; i += kRowThreads) {
    Eight<T> eight = reinterpret_cast<Eight<T>*>(row)[i];
    for (int k = 0; k < kWide; ++k) {
      narrow(gradient(eight.values[k], i * kWide + k), eight.values[k]);
    }
    reinterpret_cast<Eight<T>*>(row)[i] = eight;
  }
}

// A block per row. A row that does not count has no loss and a gradient of zeros.
template <typename T>
__device__ void cross_entropy(T* logits, const std::int64_t* targets, float* losses,
                              std::int64_t count, std::int64_t ignored, float scale) {
  T* const row = logits + static_cast<std::int64_t>(blockIdx.x) * count;
  const std::int64_t target = targets[blockIdx.x];
  const bool aligned = count % kWide == 0 && reinterpret_cast<std::uintptr_t>(logits) % 16 == 0;
  const bool counts = target != ignored;
  const bool known = target >= 0 && target < count;  // else a mistake, which shows as NaN
  const float at_target = counts ? (known ? wide(row[target]) : NAN) : 0.0F;
  const ExpSum all = of_block(exponentials_of(row, count, aligned));
  const float log_sum = all.most + logf(all.sum);
  if (threadIdx.x == 0) losses[blockIdx.x] = counts ? log_sum - at_target : 0.0F;
  differentiate_row(row, count, target, log_sum, counts ? scale : 0.0F, aligned);
}

__device__ inline float sigmoid(float x) { return 1.0F / (1.0F + __expf(-x)); }

template <typename T>
struct Swiglu {
  const T *gate, *up;
  T* out;

  __device__ void eight(std::int64_t i) const {
    const Eight<T> g = reinterpret_cast<const Eight<T>*>(gate)[i];
    const Eight<T> u = reinterpret_cast<const Eight<T>*>(up)[i];
    Eight<T> made;
    for (int k = 0; k < kWide; ++k) {
      const float x = wide(g.values[k]);
      narrow(x * sigmoid(x) * wide(u.values[k]), made.values[k]);
    }
    reinterpret_cast<Eight<T>*>(out)[i] = made;
  }
};

template <typename T>
struct SwigluBackward {
  const T *gradient, *gate, *up;
  T *gate_gradient, *up_gradient;

  __device__ void eight(std::int64_t i) const {
    const Eight<T> d = reinterpret_cast<const Eight<T>*>(gradient)[i];
    const Eight<T> g = reinterpret_cast<const Eight<T>*>(gate)[i];
    const Eight<T> u = reinterpret_cast<const Eight<T>*>(up)[i];
    Eight<T> of_gate, of_up;
    for (int k = 0; k < kWide; ++k) {
      const float x = wide(g.values[k]), s = sigmoid(x), given = wide(d.values[k]);
      narrow(given * wide(u.values[k]) * s * (1.0F + x * (1.0F - s)), of_gate.values[k]);
      narrow(given * x * s, of_up.values[k]);
    }
    reinterpret_cast<Eight<T>*>(gate_gradient)[i] = of_gate;
    reinterpret_cast<Eight<T>*>(up_gradient)[i] = of_up;
  }
};

// `count` is a number of eights.
template <typename Work>
__device__ void for_all(const Work& work, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    work.eight(i);
  }
}

template <typename T>
__device__ Swiglu<T> swiglu_of(const void* gate, const void* up, void* out) {
  return {static_cast<const T*>(gate), static_cast<const T*>(up), static_cast<T*>(out)};
}

template <typename T>
__device__ SwigluBackward<T> backward_of(const void* gradient, const void* gate, const void* up,
                                         void* gate_gradient, void* up_gradient) {
  return {static_cast<const T*>(gradient), static_cast<const T*>(gate), static_cast<const T*>(up),
          static_cast<T*>(gate_gradient), static_cast<T*>(up_gradient)};
}

}  // namespace zeroshard::device_code

using zeroshard::device_code::kRowThreads;

extern "C" __global__ void __launch_bounds__(kRowThreads)
    zs_cross_entropy(void* logits, int is_half, const std::int64_t* targets, float* losses,
                     std::int64_t vocabulary, std::int64_t ignored, float scale) {
  using namespace zeroshard::device_code;
  if (is_half != 0) {
    cross_entropy(static_cast<__half*>(logits), targets, losses, vocabulary, ignored, scale);
  } else {
    cross_entropy(static_cast<__nv_bfloat16*>(logits), targets, losses, vocabulary, ignored, scale);
  }
}

extern "C" __global__ void __launch_bounds__(256)
    zs_swiglu(const void* gate, const void* up, void* out, int is_half, std::int64_t eights) {
  using namespace zeroshard::device_code;
  if (is_half != 0) {
    for_all(swiglu_of<__half>(gate, up, out), eights);
  } else {
    for_all(swiglu_of<__nv_bfloat16>(gate, up, out), eights);
  }
}

extern "C" __global__ void __launch_bounds__(256)
    zs_swiglu_backward(const void* gradient, const void* gate, const void* up, void* gate_gradient,
                       void* up_gradient, int is_half, std::int64_t eights) {
  using namespace zeroshard::device_code;
  if (is_half != 0) {
    for_all(backward_of<__half>(gradient, gate, up, gate_gradient, up_gradient), eights);
  } else {
    for_all(backward_of<__nv_bfloat16>(gradient, gate, up, gate_gradient, up_gradient), eights);
  }
}
