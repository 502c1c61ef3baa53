// What differs between the versions of torch that we compile against, 2.11 and newer.
// Written so that no version has to be asked for; `make test-torch TORCH=...` tries another one.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include <ATen/core/Tensor.h>

namespace zeroshard {

// Holds a node of autograd's graph: a std::shared_ptr up to torch 2.14, a c10::intrusive_ptr since.
using NodePointer = std::decay_t<decltype(std::declval<const at::Tensor&>().grad_fn())>;

// For headers, where Node is only declared and an intrusive_ptr to it could not be destroyed.
using KeptNode = std::shared_ptr<const NodePointer>;

template <class Pointer>  // so that only who calls it needs all of Node
KeptNode keep_node(const Pointer& node) {
  return std::make_shared<const Pointer>(node);
}

}  // namespace zeroshard
