#include "zeroshard/optim/update_tensors.h"

#include <array>
#include <type_traits>
#include <variant>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

#include "zeroshard/optim/rules.h"

namespace zeroshard {
namespace {

// All elements of a span at once: what rules.h computes with.
struct TensorLanes {
  at::Tensor values;

  static TensorLanes broadcast(float value) { return {at::scalar_tensor(value, at::kFloat)}; }
};

TensorLanes operator+(const TensorLanes& a, const TensorLanes& b) { return {a.values + b.values}; }
TensorLanes operator-(const TensorLanes& a, const TensorLanes& b) { return {a.values - b.values}; }
TensorLanes operator*(const TensorLanes& a, const TensorLanes& b) { return {a.values * b.values}; }
TensorLanes operator/(const TensorLanes& a, const TensorLanes& b) { return {a.values / b.values}; }
TensorLanes sqrt(const TensorLanes& a) { return {a.values.sqrt()}; }
at::Tensor less(const TensorLanes& a, const TensorLanes& b) { return a.values.lt(b.values); }
TensorLanes select(const at::Tensor& which, const TensorLanes& a, const TensorLanes& b) {
  const at::Device device = which.device();
  return {at::where(which, a.values.to(device), b.values.to(device))};
}

at::ScalarType scalar_type(DType dtype) {
  if (dtype == DType::fp32) return at::kFloat;
  return dtype == DType::bf16 ? at::kBFloat16 : at::kHalf;
}

at::Tensor over(Device device, const void* data, DType dtype, std::int64_t count) {
  const at::Device torch_device =
      device == kCpu ? at::Device(at::kCPU)
                     : at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device.index));
  const auto options = at::TensorOptions().dtype(scalar_type(dtype)).device(torch_device);
  return at::for_blob(const_cast<void*>(data), {count})
      .options(options)
      .target_device(torch_device)
      .make_tensor();
}

template <typename Coefficients>
void run(Device device, const Coefficients& coefficients, const UpdateSpan& span) {
  const kernels::Rule<TensorLanes, Coefficients> rule(coefficients);
  const auto fp32 = [&](float* data) { return over(device, data, DType::fp32, span.count); };
  const at::Tensor gradient = over(device, span.gradient, span.gradient_dtype, span.count);
  const TensorLanes g{gradient.to(at::kFloat) * coefficients.gradient_factor};
  TensorLanes p{fp32(span.master)};
  std::array<TensorLanes, 2> moments;
  for (int i = 0; i < rule.kMoments; ++i) {
    moments[static_cast<std::size_t>(i)] = {fp32(span.moments[static_cast<std::size_t>(i)])};
  }
  rule(g, p, moments.data());
  fp32(span.master).copy_(p.values);
  for (int i = 0; i < rule.kMoments; ++i) {
    fp32(span.moments[static_cast<std::size_t>(i)])
        .copy_(moments[static_cast<std::size_t>(i)].values);
  }
  if (span.parameter == nullptr) return;
  over(device, span.parameter, span.parameter_dtype, span.count).copy_(p.values);
}

}  // namespace

void update_span_on(Device device, const OptimizerOptions& options, const UpdateSpan& span,
                    const StepScalars& scalars) {
  if (const auto* adam = std::get_if<AdamOptions>(&options)) {
    run(device, adam_coefficients(*adam, scalars), span);
  } else if (const auto* lion = std::get_if<LionOptions>(&options)) {
    run(device, lion_coefficients(*lion, scalars), span);
  } else if (const auto* adagrad = std::get_if<AdagradOptions>(&options)) {
    run(device, adagrad_coefficients(*adagrad, scalars), span);
  } else {
    const auto& sgd = std::get<SgdOptions>(options);
    if (sgd.momentum != 0.0) {
      run(device, momentum_coefficients(sgd, scalars), span);
    } else {
      run(device, sgd_coefficients(sgd, scalars), span);
    }
  }
}

double sum_of_squares_on(Device device, const void* data, DType dtype, std::int64_t count) {
  const at::Tensor values = over(device, data, dtype, count).to(at::kDouble);
  return values.dot(values).item<double>();
}

}  // namespace zeroshard
