#include "zeroshard/models/cross_entropy.h"

#include <algorithm>

#include <ATen/ops/arange.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "zeroshard/base/check.h"
#include "zeroshard/models/device_kernels.h"

namespace zeroshard::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kElementsInCaches = 1 << 20;  // 4 MiB, which a CPU's caches hold
constexpr std::int64_t kElementsOfKernel = 1 << 26;  // 2,048 rows of 32,000: long kernels, 256 MiB
// Fp16 has no digits left for the probabilities of a large vocabulary, so it keeps them larger.
constexpr double kHalfScale = 1024.0;

double kept_scale(const torch::Tensor& logits) {
  return logits.scalar_type() == at::kHalf ? kHalfScale : 1.0;
}

// Which rows count, and a target to read for each of them.
struct Targets {
  Targets(const torch::Tensor& given, std::int64_t ignored) {
    const torch::Tensor counted = given.ne(ignored).unsqueeze(1);
    counts = counted.to(at::kFloat);
    safe = given.unsqueeze(1).masked_fill(~counted, 0);
  }
  Targets(const Targets& all, std::int64_t row, std::int64_t count)
      : counts(all.counts.narrow(0, row, count)), safe(all.safe.narrow(0, row, count)) {}

  torch::Tensor counts, safe;  // both [rows, 1]
};

// Of a row's loss by its logits: the probabilities, less one at the target.
void subtract_targets(const torch::Tensor& probabilities, const torch::Tensor& targets) {
  const torch::Tensor rows = at::arange(targets.size(0), targets.options());
  const torch::Tensor at_targets = probabilities.gather(1, targets) - 1;
  probabilities.index_put_({rows, targets.squeeze(1)}, at_targets.squeeze(1));
}

// Turns logits into probabilities, and returns the sum of the losses of these rows.
torch::Tensor to_probabilities(const torch::Tensor& logits, const Targets& targets) {
  const torch::Tensor logs = at::log_softmax(logits, -1);
  const torch::Tensor losses = logs.gather(1, targets.safe) * targets.counts;
  logits.copy_(logs.exp_());
  return losses.sum().neg();
}

// Turns 16-bit logits into the gradient of the summed losses, times kept_scale(). The subtraction
// at the target comes before the rounding, which would else swallow small errors.
torch::Tensor to_gradient(const torch::Tensor& logits, const Targets& targets) {
  const torch::Tensor logs = at::log_softmax(logits, -1, at::kFloat);
  const torch::Tensor losses = logs.gather(1, targets.safe) * targets.counts;
  subtract_targets(logs.exp_(), targets.safe);
  torch::Tensor kept = logits;
  at::mul_out(kept, logs, targets.counts * kept_scale(logits));
  return losses.sum().neg();
}

// Works through the rows in parts; returns the sum of all losses.
template <typename Turn>
torch::Tensor in_parts(const torch::Tensor& logits, const Targets& targets, const Turn& turn) {
  const std::int64_t rows = logits.size(0);
  const std::int64_t elements = logits.is_cpu() ? kElementsInCaches : kElementsOfKernel;
  const std::int64_t some = std::max<std::int64_t>(elements / logits.size(1), 1);
  torch::Tensor sum = at::zeros({}, targets.counts.options());
  for (std::int64_t row = 0; row < rows; row += some) {
    const std::int64_t count = std::min(some, rows - row);
    sum += turn(logits.narrow(0, row, count), Targets(targets, row, count));
  }
  return sum;
}

// What forward has left in the logits. It is used up by the first backward.
torch::Tensor take_logits(AutogradContext* context) {
  ZS_CHECK(!context->saved_data.empty(),
           "this loss was differentiated before, and its logits are used up");
  const torch::Tensor logits = context->saved_data["logits"].toTensor();
  context->saved_data.clear();
  return logits;
}

struct ConsumingCrossEntropy : torch::autograd::Function<ConsumingCrossEntropy> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& logits,
                               const torch::Tensor& given, std::int64_t ignored) {
    const Targets targets(given, ignored);
    const torch::Tensor sum = in_parts(logits, targets, to_probabilities);
    const torch::Tensor total = targets.counts.sum();
    context->saved_data["logits"] = logits;
    context->save_for_backward({targets.safe, targets.counts, total});
    return sum / total;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const torch::Tensor &targets = saved[0], &counts = saved[1], &total = saved[2];
    const torch::Tensor probabilities = take_logits(context);
    subtract_targets(probabilities, targets);
    probabilities.mul_(counts * (gradients[0] / total));
    return {probabilities, {}, {}};
  }
};

// The same for 16-bit logits, whose gradient is made in forward, while they are there in fp32.
struct NarrowCrossEntropy : torch::autograd::Function<NarrowCrossEntropy> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& logits,
                               const torch::Tensor& given, std::int64_t ignored) {
    const Targets targets(given, ignored);
    const torch::Tensor sum = has_kernel(logits)
                                  ? consume_rows(logits, given, ignored, kept_scale(logits)).sum()
                                  : in_parts(logits, targets, to_gradient);
    const torch::Tensor total = targets.counts.sum();
    context->saved_data["logits"] = logits;
    context->save_for_backward({total});
    return sum / total;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const torch::Tensor gradient = take_logits(context);
    const torch::Tensor total = context->get_saved_variables()[0] * kept_scale(gradient);
    // A factor of no dimension would be rounded to 16 bits first, for every row alike.
    gradient.mul_((gradients[0] / total).reshape({1, 1}));
    return {gradient, {}, {}};
  }
};

}  // namespace

torch::Tensor consuming_cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets,
                                      std::int64_t ignored) {
  if (logits.scalar_type() != at::kFloat) {
    return NarrowCrossEntropy::apply(logits, targets, ignored);
  }
  return ConsumingCrossEntropy::apply(logits, targets, ignored);
}

}  // namespace zeroshard::models
