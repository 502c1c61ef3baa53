// The loss of a step, summed over its micro-steps where the model computes. The host reads it once,
// when it has waited for something later of the same stream anyhow (the norm), so it never stops
// for a loss.
//
//   StepLoss loss(device);
//   for each micro-step: loss.add(task.loss(...));     // before the last one's engine.step():
//   loss.send();
//   engine.step();
//   loss.receive();
#pragma once

#include <ATen/core/Tensor.h>

#include "zeroshard/device/device.h"
#include "zeroshard/device/event.h"

namespace zeroshard {

class StepLoss {
 public:
  explicit StepLoss(Device device) : device_(device) {}

  void add(const at::Tensor& loss);
  // No other is added: the sum goes to the host behind what the current stream was given so far.
  void send();
  // The sum, in double on every device. Waits where it has not arrived yet.
  double receive();

 private:
  const Device device_;
  double on_host_ = 0.0;  // of the CPU
  at::Tensor on_device_;  // of an accelerator
  at::Tensor sent_;       // pinned
  Event arrived_;
};

}  // namespace zeroshard
