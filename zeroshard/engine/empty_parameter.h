// Parameters without values, for models that fill them by name and element afterwards: under Init
// they take no memory, so only shards are ever allocated.
//
//   weight = register_parameter("weight", zeroshard::empty_parameter({out, in}));
//   ...
//   engine.fill_parameters([&](const std::string& name, Span elements, float* values) { ... });
#pragma once

#include <functional>
#include <string>

#include <ATen/core/Tensor.h>

#include "zeroshard/layout/span.h"

namespace zeroshard {

// Under Init: addresses that nobody may touch. Else plain memory, not initialised.
at::Tensor empty_parameter(at::IntArrayRef sizes);

// Whether the tensor is one of those without memory.
bool has_no_memory(const at::Tensor& tensor);

// Writes values[i] for element elements.begin() + i of the parameter, counted from its first.
using ParameterFiller =
    std::function<void(const std::string& name, const Span& elements, float* values)>;

}  // namespace zeroshard
