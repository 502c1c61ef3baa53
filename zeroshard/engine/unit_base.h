// What all units of a module tree have in common: the engine they belong to, if any, and what a
// call of them does besides computing.
#pragma once

#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>

#include "zeroshard/engine/flat_unit.h"
#include "zeroshard/engine/unit_hooks.h"
#include "zeroshard/engine/visit_tensors.h"

namespace zeroshard {

class UnitBase {
 public:
  virtual ~UnitBase() = default;

  // Activation checkpointing: only the inputs are kept, backward computes the unit again.
  void checkpoint_activations(bool on = true) { checkpoints_ = on; }

  // A use of the unit that is not its forward(): `body` may read the unit's parameters.
  template <typename Body, typename... Arguments>
  auto call(const Body& body, Arguments&&... arguments) {
    using Result = std::decay_t<std::invoke_result_t<const Body&, Arguments...>>;
    if (!link_.core()) return Result(body(std::forward<Arguments>(arguments)...));
    const ForwardScope scope(link_);
    if (!scope.leaves_graph()) return Result(body(std::forward<Arguments>(arguments)...));
    std::tuple<std::decay_t<Arguments>...> inputs(std::forward<Arguments>(arguments)...);
    if (checkpoints_) return call_checkpointed<Result>(body, inputs);
    const Use use = std::make_shared<UnitUse>(link_);
    std::vector<MarkedInput> marked = mark_inputs(use, tensors_in(inputs));
    Result result = apply<Result>(body, inputs);
    mark_outputs(use, tensors_in(result));
    carry_changes_over(use, std::move(marked));
    return result;
  }

  // The engine's side.
  void attach(UnitLink link) { link_ = std::move(link); }
  void keep(std::unique_ptr<FlatUnit> made) { made_ = std::move(made); }
  std::unique_ptr<FlatUnit> take_made() { return std::move(made_); }

 private:
  template <typename Result, typename Body, typename Inputs>
  static Result apply(const Body& body, Inputs& inputs) {
    return std::apply([&](auto&... each) -> Result { return body(std::move(each)...); }, inputs);
  }

  template <typename Value>
  static void put(Value& into, const std::vector<at::Tensor>& tensors) {
    const std::vector<at::Tensor*> places = tensors_in(into);
    for (std::size_t i = 0; i < places.size(); ++i) *places[i] = tensors[i];
  }

  template <typename Value>
  static std::vector<at::Tensor> copies_in(Value& value) {
    std::vector<at::Tensor> tensors;
    for (const at::Tensor* tensor : tensors_in(value)) tensors.push_back(*tensor);
    return tensors;
  }

  template <typename Result, typename Body, typename Inputs>
  Result call_checkpointed(const Body& body, Inputs& inputs) {
    // The result's shape, into which the graph's tensors are put.
    const auto shape = std::make_shared<std::optional<Result>>();
    const std::vector<at::Tensor> given = copies_in(inputs);
    // Autograd keeps the tensors, and lets them go when backward has used them.
    put(inputs, std::vector<at::Tensor>(given.size(), at::empty({0})));
    const FlatForward forward = [body, inputs, shape](const std::vector<at::Tensor>& tensors) {
      Inputs own = inputs;
      put(own, tensors);
      Result result = apply<Result>(body, own);
      if (!*shape) *shape = result;
      return copies_in(result);
    };
    const std::vector<at::Tensor> tensors = run_checkpointed(link_, forward, given);
    Result result = std::move(**shape);
    put(result, tensors);
    return result;
  }

  UnitLink link_;
  bool checkpoints_ = false;
  std::unique_ptr<FlatUnit> made_;  // by Init, until the engine takes it
};

}  // namespace zeroshard
