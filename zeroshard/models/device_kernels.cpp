#include "zeroshard/models/device_kernels.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/custom_function.h>

#include "zeroshard/device/kernel_module.h"

namespace zeroshard::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr char kModelsPtx[] =
#include "zeroshard/models/cuda/models.ptx.inc"
    ;

enum Kernel : std::size_t { kCrossEntropy, kSwiglu, kSwigluBackward };

KernelModule& kernels() {
  static KernelModule& module = *new KernelModule(
      "models", kModelsPtx, {"zs_cross_entropy", "zs_swiglu", "zs_swiglu_backward"});
  return module;
}

Stream stream_of(const torch::Tensor& tensor) {
  return Stream::current({DeviceKind::cuda, tensor.device().index()});
}

int is_half(const torch::Tensor& tensor) { return tensor.scalar_type() == at::kHalf ? 1 : 0; }

constexpr std::int64_t kWide = 8;           // elements of one access
constexpr std::int64_t kMostBlocks = 4096;  // each then takes several parts

LaunchShape shape_for(std::int64_t eights) {
  constexpr int kThreads = 256;
  return {.blocks = std::clamp<std::int64_t>((eights + kThreads - 1) / kThreads, 1, kMostBlocks),
          .threads = kThreads};
}

bool is_in_eights(const torch::Tensor& tensor) {
  return has_kernel(tensor) && tensor.numel() % kWide == 0 &&
         reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 16 == 0;
}

struct FusedSwiglu : torch::autograd::Function<FusedSwiglu> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& gate,
                               const torch::Tensor& up) {
    context->save_for_backward({gate, up});
    torch::Tensor out = at::empty_like(gate);
    const void* const g = gate.const_data_ptr();
    const void* const u = up.const_data_ptr();
    void* const to = out.mutable_data_ptr();
    const int half = is_half(gate);
    const std::int64_t eights = gate.numel() / kWide;
    kernels().launch(stream_of(gate), kSwiglu, shape_for(eights), {&g, &u, &to, &half, &eights});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const torch::Tensor gradient = gradients[0].contiguous();
    const torch::Tensor of_gate = at::empty_like(saved[0]), of_up = at::empty_like(saved[1]);
    const void* const d = gradient.const_data_ptr();
    const void* const g = saved[0].const_data_ptr();
    const void* const u = saved[1].const_data_ptr();
    void* const to_gate = of_gate.mutable_data_ptr();
    void* const to_up = of_up.mutable_data_ptr();
    const int half = is_half(gradient);
    const std::int64_t eights = gradient.numel() / kWide;
    kernels().launch(stream_of(gradient), kSwigluBackward, shape_for(eights),
                     {&d, &g, &u, &to_gate, &to_up, &half, &eights});
    return {of_gate, of_up};
  }
};

}  // namespace

bool has_kernel(const torch::Tensor& tensor) {
  const at::ScalarType dtype = tensor.scalar_type();
  return tensor.is_cuda() && (dtype == at::kBFloat16 || dtype == at::kHalf) &&
         tensor.is_contiguous() && tensor.numel() > 0;
}

torch::Tensor consume_rows(const torch::Tensor& logits, const torch::Tensor& targets,
                           std::int64_t ignored, double scale) {
  constexpr int kRowThreads = 512;  // as the kernel has them
  const torch::Tensor wanted = targets.contiguous();
  const torch::Tensor losses = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
  void* const in = logits.mutable_data_ptr();
  const int half = is_half(logits);
  const void* const to_hit = wanted.const_data_ptr();
  void* const out = losses.mutable_data_ptr();
  const std::int64_t vocabulary = logits.size(1);
  const auto factor = static_cast<float>(scale);
  kernels().launch(stream_of(logits), kCrossEntropy,
                   {.blocks = logits.size(0), .threads = kRowThreads},
                   {&in, &half, &to_hit, &out, &vocabulary, &ignored, &factor});
  return losses;
}

torch::Tensor swiglu(const torch::Tensor& gate, const torch::Tensor& up) {
  if (is_in_eights(gate) && is_in_eights(up)) return FusedSwiglu::apply(gate, up);
  return at::silu(gate) * up;
}

}  // namespace zeroshard::models
