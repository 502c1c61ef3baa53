#include "zeroshard/trainer/step_loss.h"

#include <ATen/core/grad_mode.h>

#include "zeroshard/engine/tensors.h"
#include "zeroshard/trainer/batch_memory.h"

namespace zeroshard {

void StepLoss::add(const at::Tensor& loss) {
  if (device_ == kCpu) {
    on_host_ += loss.item<double>();
    return;
  }
  const at::NoGradGuard no_grad;
  const at::Tensor wide = loss.detach().to(at::kDouble);
  on_device_ = on_device_.defined() ? on_device_.add_(wide) : wide;
}

void StepLoss::send() {
  if (!on_device_.defined()) return;
  sent_ = host_batch({}, at::kDouble, to_torch(device_));
  sent_.copy_(on_device_, /*non_blocking=*/true);
  arrived_.record(Stream::current(device_));
}

double StepLoss::receive() {
  if (!sent_.defined()) return on_host_;
  if (!arrived_.done()) arrived_.synchronize();
  return *sent_.const_data_ptr<double>();
}

}  // namespace zeroshard
