#include "tests/engine_account/linear_model.h"

#include <array>
#include <limits>
#include <span>

namespace zeroshard::test {
namespace {

constexpr std::array<std::int64_t, kLinearParameters> kNumels{70, 130, 1, 300, 90};

}  // namespace

LinearPartImpl::LinearPartImpl(const std::vector<std::int64_t>& numels) {
  for (const std::int64_t numel : numels) {
    const std::string name = "w" + std::to_string(weights.size());
    weights.push_back(register_parameter(name, torch::zeros({numel})));
  }
}

torch::Tensor LinearPartImpl::forward(torch::Tensor start, std::vector<torch::Tensor> numbers) {
  torch::Tensor sum = start;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!numbers[i].defined()) continue;
    sum = sum + (weights[i].to(torch::kFloat) * numbers[i]).sum();
  }
  return sum;
}

LinearModelImpl::LinearModelImpl() {
  first = register_module("first", Unit<LinearPartImpl>(std::vector{kNumels[0], kNumels[1]}));
  second = register_module("second", Unit<LinearPartImpl>(std::vector{kNumels[2], kNumels[3]}));
  root = register_parameter("root", torch::zeros({kNumels[4]}));
}

torch::Tensor LinearModelImpl::loss(const std::vector<torch::Tensor>& numbers) {
  torch::Tensor sum = torch::zeros({}).set_requires_grad(true);
  if (numbers[4].defined()) sum = sum + (root.to(torch::kFloat) * numbers[4]).sum();
  sum = first->forward(sum, {numbers[0], numbers[1]});
  return second->forward(sum, {numbers[2], numbers[3]});
}

std::int64_t linear_numel(std::size_t parameter) { return kNumels[parameter]; }

std::vector<torch::Tensor> linear_numbers(int rank, int micro_step) {
  std::vector<torch::Tensor> all;
  std::uint64_t state = static_cast<std::uint64_t>(rank * 1000 + micro_step + 1);
  for (const std::int64_t numel : kNumels) {
    torch::Tensor values = torch::empty({numel});
    for (float& value : std::span(values.data_ptr<float>(), static_cast<std::size_t>(numel))) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      const float size = 0.01F + 0.99F * static_cast<float>(state >> 40U) * 0x1p-24F;
      value = (state >> 39U & 1U) != 0 ? size : -size;
    }
    all.push_back(values);
  }
  return all;
}

std::vector<std::vector<float>> owned_masters(const Core& core) {
  // The engine has the root first, then the units.
  constexpr std::array<std::size_t, 3> kFirstOf{4, 0, 2};
  std::vector<std::vector<float>> all(kLinearParameters);
  for (std::size_t unit = 0; unit < core.units(); ++unit) {
    const FlatLayout& layout = core.unit(unit).layout().groups()[0].layout;
    const auto states = core.states().states(unit, 0);
    const at::Tensor masters = core.states().masters(unit, 0).contiguous();
    const bool whole = states.owned_numel == layout.padded_numel();
    const std::int64_t begin = whole ? 0 : core.unit(unit).shard_begin(0);
    for (std::size_t i = 0; i < layout.parameter_count(); ++i) {
      const Span& span = layout.parameter_span(i);
      for (std::int64_t at = span.begin(); at < span.end(); ++at) {
        const bool owned = at >= begin && at < begin + states.owned_numel;
        all[kFirstOf[unit] + i].push_back(owned ? masters.const_data_ptr<float>()[at - begin]
                                                : std::numeric_limits<float>::quiet_NaN());
      }
    }
  }
  return all;
}

}  // namespace zeroshard::test
