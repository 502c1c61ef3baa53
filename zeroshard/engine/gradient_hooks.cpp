#include "zeroshard/engine/gradient_hooks.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "zeroshard/base/error.h"
#include "zeroshard/engine/core.h"

namespace zeroshard {

// Before the accumulator runs: what it is given is undefined, so `.grad` stays empty.
class GradientHook final : public torch::autograd::FunctionPreHook {
 public:
  GradientHook(std::shared_ptr<WeakCore> core, std::size_t unit, std::size_t index)
      : core_(std::move(core)), unit_(unit), index_(index) {}

  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override {
    const CoreAccess core(core_);
    if (!core || gradients.empty() || !gradients[0].defined()) return gradients;
    if (at::GradMode::is_enabled()) {
      throw StateError({.what = "backward with create_graph is not supported",
                        .remedy = "use torch::autograd::grad for higher derivatives"});
    }
    const at::NoGradGuard no_grad;
    // What an embedding of sparse gradients brings takes its place among the others.
    const at::Tensor& gradient = gradients[0];
    if (gradient.is_sparse()) {
      core->capture(unit_, index_, gradient.to_dense());
    } else {
      core->capture(unit_, index_, gradient);  // no copy, not even of the reference: see held
    }
    return {at::Tensor()};
  }

 private:
  const std::shared_ptr<WeakCore> core_;
  const std::size_t unit_;
  const std::size_t index_;
};

GradientHandle::GradientHandle(const at::Tensor& parameter, std::shared_ptr<WeakCore> core,
                               std::size_t unit, std::size_t index) {
  const auto node = torch::autograd::impl::grad_accumulator(parameter);
  node->add_pre_hook(std::make_unique<GradientHook>(std::move(core), unit, index));
  node_ = keep_node(node);
}

}  // namespace zeroshard
