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
  GradientHook(std::shared_ptr<CoreLink> link, std::size_t unit, std::size_t index)
      : link_(std::move(link)), unit_(unit), index_(index) {}

  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override {
    if (link_->core == nullptr || gradients.empty() || !gradients[0].defined()) return gradients;
    refuse(gradients[0]);
    const at::NoGradGuard no_grad;
    link_->core->capture(unit_, index_, gradients[0]);
    return {at::Tensor()};
  }

 private:
  void refuse(const at::Tensor& gradient) const {
    if (at::GradMode::is_enabled()) {
      throw StateError({.what = "backward with create_graph is not supported",
                        .remedy = "use torch::autograd::grad for higher derivatives"});
    }
    if (gradient.is_sparse()) {
      throw StateError({.what = "a sparse gradient is not supported",
                        .value = link_->core->unit(unit_).parameters()[index_].name,
                        .remedy = "make the embedding with sparse(false)"});
    }
  }

  const std::shared_ptr<CoreLink> link_;
  const std::size_t unit_;
  const std::size_t index_;
};

GradientHandle::GradientHandle(const at::Tensor& parameter, std::shared_ptr<CoreLink> link,
                               std::size_t unit, std::size_t index) {
  const auto node = torch::autograd::impl::grad_accumulator(parameter);
  node->add_pre_hook(std::make_unique<GradientHook>(std::move(link), unit, index));
  node_ = node;
}

}  // namespace zeroshard
