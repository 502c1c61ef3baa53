#include "zeroshard/engine/unit_hooks.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "zeroshard/engine/core.h"

namespace zeroshard {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Custom functions take and keep values of IValue's kinds only; this carries one of ours.
struct Carried final : torch::CustomClassHolder {
  UnitLink unit;
  FlatForward forward;
  std::vector<at::Tensor> random_states;
};

c10::intrusive_ptr<Carried> carry(const UnitLink& unit) {
  auto carried = c10::make_intrusive<Carried>();
  carried->unit = unit;
  return carried;
}

// The identity. Its backward runs when all of the unit's has.
struct Boundary : torch::autograd::Function<Boundary> {
  static variable_list forward(AutogradContext* context, c10::intrusive_ptr<Carried> carried,
                               variable_list inputs) {
    context->saved_data["unit"] = c10::IValue::make_capsule(std::move(carried));
    return inputs;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto carried =
        c10::static_intrusive_pointer_cast<Carried>(context->saved_data["unit"].toCapsule());
    if (Core* core = carried->unit.core()) core->after_backward(carried->unit.unit);
    variable_list all{at::Tensor()};
    all.insert(all.end(), gradients.begin(), gradients.end());
    return all;
  }
};

std::vector<at::Generator> generators(const std::vector<at::Tensor>& inputs) {
  std::vector<at::Generator> all{at::detail::getDefaultCPUGenerator()};
  for (const at::Tensor& input : inputs) {
    if (!input.defined() || input.device().is_cpu()) continue;
    all.push_back(at::globalContext().defaultGenerator(input.device()));
    break;
  }
  return all;
}

std::vector<at::Tensor> random_states(const std::vector<at::Generator>& of) {
  std::vector<at::Tensor> states;
  for (at::Generator generator : of) {
    const std::lock_guard lock(generator.mutex());
    states.push_back(generator.get_state());
  }
  return states;
}

void set_random_states(const std::vector<at::Generator>& of,
                       const std::vector<at::Tensor>& states) {
  for (std::size_t i = 0; i < of.size(); ++i) {
    at::Generator generator = of[i];
    const std::lock_guard lock(generator.mutex());
    generator.set_state(states[i]);
  }
}

// The unit's forward once more, with what it was given the first time.
variable_list recompute(const Carried& carried, const variable_list& inputs) {
  const std::vector<at::Generator> of = generators(inputs);
  const std::vector<at::Tensor> now = random_states(of);
  set_random_states(of, carried.random_states);
  variable_list outputs;
  {
    const at::AutoGradMode grad(true);
    outputs = carried.forward(inputs);
  }
  set_random_states(of, now);
  return outputs;
}

struct Checkpoint : torch::autograd::Function<Checkpoint> {
  // The anchor requires a gradient, so that there is a node even where no input does.
  static variable_list forward(AutogradContext* context, c10::intrusive_ptr<Carried> carried,
                               variable_list inputs, at::Tensor) {
    carried->random_states = random_states(generators(inputs));
    context->save_for_backward(inputs);
    variable_list outputs = carried->forward(inputs);
    context->saved_data["unit"] = c10::IValue::make_capsule(std::move(carried));
    return outputs;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto carried =
        c10::static_intrusive_pointer_cast<Carried>(context->saved_data["unit"].toCapsule());
    Core* const core = carried->unit.core();
    if (core != nullptr) core->before_backward(carried->unit.unit);
    variable_list inputs;
    for (const at::Tensor& saved : context->get_saved_variables()) {
      inputs.push_back(saved.defined() ? saved.detach().set_requires_grad(saved.requires_grad())
                                       : saved);
    }
    const std::size_t holds = core == nullptr ? 0 : core->recompute_holds();
    differentiate(recompute(*carried, inputs), gradients);
    if (core != nullptr) {
      core->end_recompute(holds);
      core->after_backward(carried->unit.unit);
    }
    variable_list result{at::Tensor()};
    for (const at::Tensor& input : inputs) result.push_back(input.defined() ? input.grad() : input);
    result.emplace_back();
    return result;
  }

  static void differentiate(const variable_list& outputs, const variable_list& gradients) {
    variable_list wanted, given;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!gradients[i].defined() || !outputs[i].requires_grad()) continue;
      wanted.push_back(outputs[i]);
      given.push_back(gradients[i]);
    }
    if (!wanted.empty()) torch::autograd::backward(wanted, given);
  }
};

}  // namespace

ForwardScope::ForwardScope(const UnitLink& unit) : unit_(unit) {
  Core* const core = unit_.core();
  leaves_graph_ = at::GradMode::is_enabled() && !core->recomputes();
  core->before_forward(unit_.unit);
}

ForwardScope::~ForwardScope() {
  if (Core* core = unit_.core()) core->after_forward(unit_.unit);
}

void mark_inputs(const UnitLink& unit, const std::vector<at::Tensor*>& inputs) {
  std::vector<at::Tensor*> wanted;
  variable_list values;
  for (at::Tensor* input : inputs) {
    if (!input->requires_grad()) continue;
    wanted.push_back(input);
    values.push_back(*input);
  }
  if (wanted.empty()) return;
  const variable_list marked = Boundary::apply(carry(unit), values);
  for (std::size_t i = 0; i < wanted.size(); ++i) *wanted[i] = marked[i];
}

void mark_outputs(const UnitLink& unit, const std::vector<at::Tensor*>& outputs) {
  bool any = false;
  for (at::Tensor* output : outputs) {
    if (!output->requires_grad()) continue;
    any = true;
    output->register_hook([unit](const at::Tensor& gradient) {
      if (Core* core = unit.core()) core->before_backward(unit.unit);
      return gradient;
    });
  }
  if (any) unit.core()->expect_backward(unit.unit);
}

std::vector<at::Tensor> run_checkpointed(const UnitLink& unit, const FlatForward& forward,
                                         const std::vector<at::Tensor>& inputs) {
  auto carried = carry(unit);
  carried->forward = forward;
  const at::Tensor anchor = at::ones({1}).set_requires_grad(true);
  unit.core()->expect_backward(unit.unit);
  return Checkpoint::apply(std::move(carried), inputs, anchor);
}

}  // namespace zeroshard
