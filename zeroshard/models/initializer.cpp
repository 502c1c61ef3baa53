#include "zeroshard/models/initializer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/counter_random.h"
#include "zeroshard/models/shapes.h"

namespace zeroshard {
namespace {

constexpr double kDeviation = 0.02;

void fill_normal(const CounterRandom& random, double deviation, const Span& elements,
                 float* values) {
  for (std::int64_t i = 0; i < elements.size(); ++i) {
    const auto element = static_cast<std::uint64_t>(elements.begin() + i);
    values[i] = static_cast<float>(deviation * random.normal(element));
  }
}

void fill_uniform(const CounterRandom& random, double bound, const Span& elements, float* values) {
  for (std::int64_t i = 0; i < elements.size(); ++i) {
    const auto element = static_cast<std::uint64_t>(elements.begin() + i);
    values[i] = static_cast<float>(bound * (2.0 * random.uniform(element) - 1.0));
  }
}

bool writes_to_residual(const std::string& name) {
  return name.ends_with(".attention.out.weight") || name.ends_with(".mlp.down.weight");
}

}  // namespace

ParameterFiller gpt_initializer(const GptOptions& options, std::uint64_t seed) {
  const double to_residual = kDeviation / std::sqrt(2.0 * static_cast<double>(options.layers));
  return [seed, to_residual](const std::string& name, const Span& elements, float* values) {
    if (name.ends_with(".bias")) {
      std::fill_n(values, elements.size(), 0.0F);
    } else if (name.ends_with("norm.weight")) {
      std::fill_n(values, elements.size(), 1.0F);
    } else {
      fill_normal(CounterRandom(name, seed), writes_to_residual(name) ? to_residual : kDeviation,
                  elements, values);
    }
  };
}

ParameterFiller dense_initializer(const DenseOptions& options, std::uint64_t seed) {
  std::map<std::string, double> bounds;
  for (const UnitShapes& unit : unit_shapes(options)) {
    for (const ParameterShape& parameter : unit.parameters) {
      const ParameterShape& weight = unit.parameters.front();
      bounds[parameter.name] = 1.0 / std::sqrt(static_cast<double>(weight.dims.back()));
    }
  }
  return [seed, bounds](const std::string& name, const Span& elements, float* values) {
    const auto bound = bounds.find(name);
    ZS_CHECK(bound != bounds.end(), "{} is no parameter of this network", name);
    fill_uniform(CounterRandom(name, seed), bound->second, elements, values);
  };
}

ParameterFiller initializer(const ModelOptions& options, std::uint64_t seed) {
  if (const auto* gpt = std::get_if<GptOptions>(&options)) return gpt_initializer(*gpt, seed);
  return dense_initializer(std::get<DenseOptions>(options), seed);
}

void fill_parameters(torch::nn::Module& model, const ParameterFiller& fill) {
  const at::NoGradGuard no_grad;
  for (const auto& parameter : model.named_parameters()) {
    const at::Tensor& tensor = parameter.value();
    const at::Tensor values = at::empty(tensor.sizes(), at::kFloat);
    fill(parameter.key(), Span(0, tensor.numel()), values.mutable_data_ptr<float>());
    tensor.copy_(values);
  }
}

}  // namespace zeroshard
