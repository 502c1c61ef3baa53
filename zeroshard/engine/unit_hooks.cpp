#include "zeroshard/engine/unit_hooks.h"

#include <algorithm>
#include <mutex>
#include <string_view>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/variable.h>

#include "zeroshard/base/error.h"
#include "zeroshard/engine/core.h"
#include "zeroshard/engine/loss_division.h"
#include "zeroshard/monitor/trace.h"

namespace zeroshard {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What a node of ours needs in its backward. Custom functions take and keep values of IValue's
// kinds only, so it is one of those.
struct NodeState final : torch::CustomClassHolder {
  Use use;
  std::vector<Use> nested;  // units used inside, when all is computed again
  FlatForward forward;
  std::vector<at::Tensor> random_states;
};

c10::intrusive_ptr<NodeState> state_of(Use use) {
  auto state = c10::make_intrusive<NodeState>();
  state->use = std::move(use);
  return state;
}

c10::intrusive_ptr<NodeState> saved_state(AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<NodeState>(context->saved_data["unit"].toCapsule());
}

// What is being computed without a graph, because backward will compute it again.
thread_local NodeState* without_graph = nullptr;

class WithoutGraphScope {
 public:
  explicit WithoutGraphScope(NodeState& state) : outer_(std::exchange(without_graph, &state)) {}
  ~WithoutGraphScope() { without_graph = outer_; }
  WithoutGraphScope(const WithoutGraphScope&) = delete;
  WithoutGraphScope& operator=(const WithoutGraphScope&) = delete;

 private:
  NodeState* const outer_;
};

// The identity. Its backward runs when all of the unit's has.
struct Boundary : torch::autograd::Function<Boundary> {
  // A list of this type is seen by autograd; a vector is not, and its gradients would end here.
  static variable_list forward(AutogradContext* context, c10::intrusive_ptr<NodeState> state,
                               at::TensorList inputs) {
    context->saved_data["unit"] = c10::IValue::make_capsule(std::move(state));
    // An input without a gradient stays without: zeros would reach parameters as a gradient.
    context->set_materialize_grads(false);
    // Not the inputs as they are: autograd would forbid the unit to change those in place.
    variable_list same_memory;
    for (const at::Tensor& input : inputs) same_memory.push_back(input.detach());
    return same_memory;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    saved_state(context)->use->end_backward();
    variable_list all(1);
    for (const at::Tensor& gradient : gradients) all.push_back(gradient);
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

// Other random states while it lives.
class RandomReplay {
 public:
  RandomReplay(std::vector<at::Generator> of, const std::vector<at::Tensor>& states)
      : of_(std::move(of)), now_(random_states(of_)) {
    set_random_states(of_, states);
  }
  ~RandomReplay() { set_random_states(of_, now_); }
  RandomReplay(const RandomReplay&) = delete;
  RandomReplay& operator=(const RandomReplay&) = delete;

 private:
  const std::vector<at::Generator> of_;
  const std::vector<at::Tensor> now_;
};

// The unit's forward once more, with what it was given the first time.
variable_list recompute(const NodeState& state, const variable_list& inputs) {
  const UnitLink& unit = state.use->unit();
  const CoreAccess core = unit.core();
  Trace* const trace = core ? core->trace() : nullptr;
  std::string_view name;
  if (trace != nullptr) name = core->unit(unit.unit).name();
  const Trace::Scope scope(trace, Lane::compute, "recompute", name);
  const RandomReplay replay(generators(inputs), state.random_states);
  const at::AutoGradMode grad(true);
  return state.forward(inputs);
}

struct Checkpoint : torch::autograd::Function<Checkpoint> {
  // The anchor requires a gradient, so that there is a node even where no input does.
  static variable_list forward(AutogradContext* context, c10::intrusive_ptr<NodeState> state,
                               at::TensorList given, at::Tensor) {
    const variable_list inputs = given.vec();
    state->random_states = random_states(generators(inputs));
    context->save_for_backward(inputs);
    context->set_materialize_grads(false);
    const WithoutGraphScope scope(*state);
    variable_list outputs = state->forward(inputs);
    context->saved_data["unit"] = c10::IValue::make_capsule(std::move(state));
    return outputs;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto state = saved_state(context);
    const CoreAccess core = state->use->unit().core();
    state->use->begin_backward();
    variable_list inputs;
    for (const at::Tensor& saved : context->get_saved_variables()) {
      inputs.push_back(saved.defined() ? saved.detach().set_requires_grad(saved.requires_grad())
                                       : saved);
    }
    const std::size_t holds = core ? core->recompute_holds() : 0;
    differentiate(recompute(*state, inputs), gradients);
    if (core) core->end_recompute(holds);
    for (const Use& use : state->nested) use->end_backward();
    state->use->end_backward();
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

// Lives in a hook, and so as long as the node that has the hook.
class NodeMark {
 public:
  NodeMark(Use use, const NodePointer& node) : use_(std::move(use)), node_(node.get()) {
    use_->add_node(node);
  }
  ~NodeMark() { use_->remove_node(node_); }
  NodeMark(const NodeMark&) = delete;
  NodeMark& operator=(const NodeMark&) = delete;

 private:
  const Use use_;
  const torch::autograd::Node* const node_;
};

// Besides the one given: whether somebody has the tensor, or what it is a view of.
bool is_used_elsewhere(const at::Tensor& tensor) {
  return tensor.use_count() > 1 || (tensor.is_view() && tensor._base().use_count() > 1);
}

}  // namespace

ForwardScope::ForwardScope(const UnitLink& unit) : unit_(unit) {
  const CoreAccess core = unit_.core();
  const bool recomputes = core->recomputes();
  leaves_graph_ = at::GradMode::is_enabled() && !recomputes;
  core->before_forward(unit_.unit, leaves_graph_ || without_graph != nullptr);
  if (without_graph == nullptr || recomputes) return;
  without_graph->nested.push_back(std::make_shared<UnitUse>(unit_));
}

ForwardScope::~ForwardScope() {
  const CoreAccess core = unit_.core();
  if (!core) return;
  try {
    core->after_forward(unit_.unit);
    if (unwinding_) core->abandon_forward();
  } catch (...) {
    core->keep_error(std::current_exception());
  }
}

UnitUse::UnitUse(UnitLink unit) : unit_(std::move(unit)) {
  if (const CoreAccess core = unit_.core()) id_ = core->uses().begin(unit_.unit);
}

UnitUse::~UnitUse() {
  if (const CoreAccess core = unit_.core()) core->uses().forget(id_);
}

void UnitUse::add_node(const NodePointer& node) const {
  if (const CoreAccess core = unit_.core()) core->uses().add_node(id_, node.get());
}

void UnitUse::remove_node(const torch::autograd::Node* node) const {
  if (const CoreAccess core = unit_.core()) core->uses().remove_node(id_, node);
}

void UnitUse::begin_backward() const {
  if (const CoreAccess core = unit_.core()) core->before_backward(id_);
}

void UnitUse::end_backward() const {
  if (const CoreAccess core = unit_.core()) core->after_backward(id_);
}

void UnitUse::end_by_gradients() const {
  if (const CoreAccess core = unit_.core()) core->uses().end_by_gradients(id_);
}

std::vector<MarkedInput> mark_inputs(const Use& use, const std::vector<at::Tensor*>& inputs) {
  variable_list values;
  std::vector<std::vector<at::Tensor*>> places;  // of each value: one may be given several times
  for (at::Tensor* input : inputs) {
    if (!input->requires_grad()) continue;
    const auto same = [&](const at::Tensor& value) { return value.is_same(*input); };
    const auto found = std::find_if(values.begin(), values.end(), same) - values.begin();
    if (found == std::ssize(values)) {
      values.push_back(*input);
      places.emplace_back();
    }
    places[static_cast<std::size_t>(found)].push_back(input);
  }
  if (values.empty()) {
    use->end_by_gradients();
    return {};
  }
  const variable_list marked = Boundary::apply(state_of(use), at::TensorList(values));
  std::vector<MarkedInput> kept;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (at::Tensor* place : places[i]) *place = marked[i];
    if (!is_used_elsewhere(values[i])) continue;  // it may go while the unit runs
    kept.push_back(
        {std::move(values[i]), marked[i], keep_node(marked[i].grad_fn()), marked[i]._version()});
  }
  return kept;
}

void carry_changes_over(const Use& use, std::vector<MarkedInput> inputs) {
  for (auto& [given, marked, boundary, version] : inputs) {
    if (marked._version() == version) continue;
    // Under no_grad, which changes values alone; but a view may have been changed by way of its
    // base.
    if (!given.is_view() && marked.grad_fn() == *boundary) continue;
    if (given.is_view() || given.is_leaf()) {
      throw StateError({.what = "a unit changes an input in place that is a view, or a leaf",
                        .value = fmt::format("of shape [{}]", fmt::join(given.sizes(), ", ")),
                        .remedy = "give the unit a clone() of it, or change it out of place"});
    }
    // A gradient may come back by this way alone, and needs the unit as one at an output does.
    mark_outputs(use, {&marked});
    torch::autograd::impl::rebase_history(given, torch::autograd::impl::gradient_edge(marked));
  }
}

void mark_outputs(const Use& use, const std::vector<at::Tensor*>& outputs) {
  for (at::Tensor* output : outputs) {
    if (!output->requires_grad()) continue;
    const auto mark = std::make_shared<NodeMark>(use, output->grad_fn());
    output->register_hook([use, mark](const at::Tensor& gradient) {
      use->begin_backward();
      return gradient;
    });
  }
}

void follow_graph_of(const std::vector<at::Tensor*>& outputs, const std::vector<Use>& uses) {
  for (at::Tensor* output : outputs) {
    if (uses.empty() || output->grad_fn() == nullptr) continue;
    std::vector<std::shared_ptr<NodeMark>> marks;
    for (const Use& use : uses) marks.push_back(std::make_shared<NodeMark>(use, output->grad_fn()));
    output->register_hook([marks](const at::Tensor& gradient) { return gradient; });
  }
}

// Not where grad() asks for some leaves: it may mean none of the engine's, and on one rank alone.
void open_backward_at(const std::vector<at::Tensor*>& outputs,
                      const std::shared_ptr<WeakCore>& engine) {
  for (at::Tensor* output : outputs) {
    if (output->grad_fn() == nullptr) continue;
    output->register_hook([engine](const at::Tensor& gradient) {
      const CoreAccess core(engine);
      if (core && reaches_all_leaves()) core->begin_recompute();
      return gradient;
    });
  }
}

std::vector<at::Tensor> run_checkpointed(const UnitLink& unit, const FlatForward& forward,
                                         const std::vector<at::Tensor>& inputs) {
  const auto state = state_of(std::make_shared<UnitUse>(unit));
  state->forward = forward;
  const at::Tensor anchor = at::ones({1}).set_requires_grad(true);
  variable_list outputs = Checkpoint::apply(state, at::TensorList(inputs), anchor);
  for (const at::Tensor& output : outputs) {
    if (!output.defined() || output.grad_fn() == nullptr) continue;
    state->use->add_node(output.grad_fn());
    for (const Use& use : state->nested) use->add_node(output.grad_fn());
  }
  return outputs;
}

}  // namespace zeroshard
