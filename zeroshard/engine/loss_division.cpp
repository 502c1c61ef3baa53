#include "zeroshard/engine/loss_division.h"

#include <string>

#include <torch/csrc/autograd/graph_task.h>

#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

struct DividedLoss final : c10::DebugInfoBase {
  explicit DividedLoss(std::optional<double> parts_in) : parts(parts_in) {}
  const std::optional<double> parts;
};

// Of torch's kinds of thread-local information, one that torch has no use for itself.
c10::DebugInfoKind divided_loss() { return c10::DebugInfoKind::TEST_INFO_2; }

}  // namespace

DividedLossScope::DividedLossScope(std::optional<double> parts)
    : guard_(divided_loss(), std::make_shared<DividedLoss>(parts)) {}

double divisor_owed(double parts) {
  const auto* const divided =
      static_cast<const DividedLoss*>(c10::ThreadLocalDebugInfo::get(divided_loss()));
  if (divided == nullptr) return parts;
  return divided->parts ? parts / *divided->parts : 1.0;
}

void refuse_unfit(const at::Tensor& loss) {
  if (loss.numel() == 1 && loss.requires_grad()) return;
  throw StateError({.what = "backward needs a loss of one number that depends on parameters",
                    .value = std::to_string(loss.numel()) + " numbers" +
                             (loss.requires_grad() ? "" : ", no gradient"),
                    .remedy = "reduce it with mean() or sum(), with gradients enabled"});
}

bool reaches_all_leaves() {
  const auto* const wanted = torch::autograd::get_current_graph_task_exec_info();
  return wanted == nullptr || wanted->empty();
}

}  // namespace zeroshard
