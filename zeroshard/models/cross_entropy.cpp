#include "zeroshard/models/cross_entropy.h"

#include <algorithm>

#include <ATen/ops/arange.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "zeroshard/base/check.h"

namespace zeroshard::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kElementsAtATime = 1 << 20;  // 4 MiB, which caches hold

// Turns logits into probabilities, and returns the sum of the losses of these rows.
torch::Tensor to_probabilities(const torch::Tensor& logits, const torch::Tensor& targets,
                               const torch::Tensor& counts) {
  const torch::Tensor logs = at::log_softmax(logits, -1);
  const torch::Tensor losses = logs.gather(1, targets) * counts;
  logits.copy_(logs.exp_());
  return losses.sum().neg();
}

struct ConsumingCrossEntropy : torch::autograd::Function<ConsumingCrossEntropy> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& logits,
                               const torch::Tensor& targets, std::int64_t ignored) {
    const torch::Tensor counted = targets.ne(ignored).unsqueeze(1);
    const torch::Tensor counts = counted.to(at::kFloat);
    const torch::Tensor safe = targets.unsqueeze(1).masked_fill(~counted, 0);
    const std::int64_t rows = logits.size(0);
    const std::int64_t some = std::max<std::int64_t>(kElementsAtATime / logits.size(1), 1);
    torch::Tensor sum = at::zeros({}, logits.options());
    for (std::int64_t row = 0; row < rows; row += some) {
      const std::int64_t count = std::min(some, rows - row);
      sum += to_probabilities(logits.narrow(0, row, count), safe.narrow(0, row, count),
                              counts.narrow(0, row, count));
    }
    const torch::Tensor total = counts.sum();
    context->saved_data["probabilities"] = logits;
    context->save_for_backward({safe, counts, total});
    return sum / total;
  }

  // Of a row's loss by its logits: the probabilities, less one at the target.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const torch::Tensor &targets = saved[0], &counts = saved[1], &total = saved[2];
    ZS_CHECK(!context->saved_data.empty(),
             "this loss was differentiated before, and its logits are used up");
    const torch::Tensor probabilities = context->saved_data["probabilities"].toTensor();
    context->saved_data.clear();
    const torch::Tensor rows = at::arange(targets.size(0), targets.options());
    const torch::Tensor at_targets = probabilities.gather(1, targets) - 1;
    probabilities.index_put_({rows, targets.squeeze(1)}, at_targets.squeeze(1));
    probabilities.mul_(counts * (gradients[0] / total));
    return {probabilities, {}, {}};
  }
};

}  // namespace

torch::Tensor consuming_cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets,
                                      std::int64_t ignored) {
  return ConsumingCrossEntropy::apply(logits, targets, ignored);
}

}  // namespace zeroshard::models
