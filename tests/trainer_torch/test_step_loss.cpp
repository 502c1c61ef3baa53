// The sum of a step's losses is the double sum of what the micro-steps gave, on every device.
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

#include "zeroshard/device/accelerators.h"
#include "zeroshard/device/backend.h"
#include "zeroshard/engine/tensors.h"
#include "zeroshard/trainer/step_loss.h"

namespace zeroshard {
namespace {

double summed(Device device) {
  StepLoss loss(device);
  for (const float value : {10.5F, 0.1F, 3e-9F}) {
    loss.add(at::scalar_tensor(value, at::TensorOptions(at::kFloat).device(to_torch(device)))
                 .requires_grad_());
  }
  loss.send();
  return loss.receive();
}

constexpr double kSum = 10.5 + static_cast<double>(0.1F) + static_cast<double>(3e-9F);

TEST(StepLoss, IsSummedInDouble) { EXPECT_EQ(summed(kCpu), kSum); }

TEST(StepLoss, IsTheSameOnAGpu) {
  if (load_accelerators() == 0) GTEST_SKIP() << missing_reason(DeviceKind::cuda);
  EXPECT_EQ(summed({DeviceKind::cuda, 0}), kSum);
}

TEST(StepLoss, OfNothingIsZero) {
  StepLoss loss(kCpu);
  loss.send();
  EXPECT_EQ(loss.receive(), 0.0);
}

}  // namespace
}  // namespace zeroshard
