// A unit as it is written in a C++ model: the module itself, gathered while it runs.
//
//   struct BlockImpl : torch::nn::Module { ... };
//   TORCH_MODULE(Block);
//   blocks->push_back(zeroshard::Unit<BlockImpl>(config));  // instead of Block(config)
//
// Without an engine a Unit is a plain module. Parameter names are the module's own. A forward()
// whose arguments hold tensors in types of your own needs visit_tensors (visit_tensors.h) for them.
// Where forward() is overloaded or a template, say which one the unit is called by:
//
//   zeroshard::Unit<BlockImpl, torch::Tensor (BlockImpl::*)(torch::Tensor)>(config)
#pragma once

#include <utility>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "zeroshard/engine/init.h"
#include "zeroshard/engine/unit_base.h"

namespace zeroshard {

// forward() as a member function type without const, which Unit does not ask for.
template <typename Signature>
struct WithoutConst {
  using type = Signature;
};
template <typename Owner, typename Result, typename... Arguments>
struct WithoutConst<Result (Owner::*)(Arguments...) const> {
  using type = Result (Owner::*)(Arguments...);
};

// Looks at forward() only where no signature is given.
template <typename Impl, typename Signature>
struct SignatureOf : WithoutConst<Signature> {};
template <typename Impl>
struct SignatureOf<Impl, void> : WithoutConst<decltype(&Impl::forward)> {};

template <typename Impl, typename Signature = typename SignatureOf<Impl, void>::type>
class UnitImpl;

// forward() has the module's own signature, so that torch::nn::Sequential can hold it.
template <typename Impl, typename Owner, typename Result, typename... Arguments>
class UnitImpl<Impl, Result (Owner::*)(Arguments...)> : public Impl, public UnitBase {
 public:
  template <typename... Options>
  explicit UnitImpl(Options&&... options) : Impl(std::forward<Options>(options)...) {
    if (Init* init = Init::current()) init->adopt(*this, *this);
  }

  Result forward(Arguments... arguments) {
    const auto body = [this](auto&&... each) -> Result {
      return Impl::forward(std::forward<decltype(each)>(each)...);
    };
    return this->call(body, std::forward<Arguments>(arguments)...);
  }
};

// A holder, as TORCH_MODULE makes them.
template <typename Impl, typename Signature = void>
class Unit
    : public torch::nn::ModuleHolder<UnitImpl<Impl, typename SignatureOf<Impl, Signature>::type>> {
 public:
  using torch::nn::ModuleHolder<
      UnitImpl<Impl, typename SignatureOf<Impl, Signature>::type>>::ModuleHolder;
};

}  // namespace zeroshard
