// First weights: by name and element alone, and of the size they should have.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/models/model_run.h"
#include "zeroshard/models/dense.h"
#include "zeroshard/models/initializer.h"
#include "zeroshard/models/shapes.h"

namespace zeroshard::test {
namespace {

std::vector<float> filled(const ParameterFiller& fill, const std::string& name,
                          const Span& elements) {
  std::vector<float> values(static_cast<std::size_t>(elements.size()), -7.0F);
  fill(name, elements, values.data());
  return values;
}

TEST(Initializer, PiecesInAnyOrderGiveTheWhole) {
  const ParameterFiller fill = gpt_initializer(gpt2_options(), 4);
  for (const char* name : {"embedding.tokens", "blocks.1.mlp.down.weight", "head.norm.weight"}) {
    const std::vector<float> whole = filled(fill, name, Span(0, 500));
    for (const Span& part : {Span(300, 500), Span(0, 17), Span(17, 300), Span(5, 5)}) {
      EXPECT_EQ(filled(fill, name, part),
                std::vector<float>(whole.begin() + part.begin(), whole.begin() + part.end()));
    }
  }
}

TEST(Initializer, SeedsAndNamesDiffer) {
  const auto one = filled(gpt_initializer(gpt2_options(), 4), "head.out.weight", Span(0, 50));
  EXPECT_NE(one, filled(gpt_initializer(gpt2_options(), 5), "head.out.weight", Span(0, 50)));
  EXPECT_NE(one, filled(gpt_initializer(gpt2_options(), 4), "embedding.tokens", Span(0, 50)));
}

struct Moments {
  double mean = 0;
  double deviation = 0;
  double kurtosis = 0;  // 3 for a normal distribution
};

Moments moments_of(const std::vector<float>& values) {
  Moments found;
  const auto count = static_cast<double>(values.size());
  for (const float value : values) found.mean += value / count;
  double second = 0;
  double fourth = 0;
  for (const float value : values) {
    second += std::pow(value - found.mean, 2) / count;
    fourth += std::pow(value - found.mean, 4) / count;
  }
  found.deviation = std::sqrt(second);
  found.kurtosis = fourth / (second * second);
  return found;
}

// Every parameter of a real tree, so that a renamed one cannot fall into the wrong kind.
TEST(Initializer, EveryGptParameterHasTheSizeOfItsKind) {
  GptOptions options{.layers = 8, .hidden = 128, .heads = 4, .sequence = 100};
  for (const Activation activation : {Activation::gelu, Activation::swiglu}) {
    options.activation = activation;
    const ParameterFiller fill = gpt_initializer(options, 2);
    for (const UnitShapes& unit : unit_shapes(options)) {
      for (const ParameterShape& parameter : unit.parameters) {
        const auto values = filled(fill, parameter.name, Span(0, parameter.numel()));
        if (parameter.dims.size() == 1) {
          const bool is_bias = parameter.name.ends_with("bias");
          EXPECT_EQ(values, std::vector<float>(values.size(), is_bias ? 0.0F : 1.0F));
          continue;
        }
        const bool to_residual = parameter.name.ends_with("attention.out.weight") ||
                                 parameter.name.ends_with("mlp.down.weight");
        const double expected = to_residual ? 0.02 / 4 : 0.02;  // sqrt(2 * 8) = 4
        const Moments moments = moments_of(values);
        const double unit_error = 1 / std::sqrt(static_cast<double>(values.size()));
        EXPECT_NEAR(moments.mean, 0, 5 * expected * unit_error) << parameter.name;
        EXPECT_NEAR(moments.deviation / expected, 1, 5 * unit_error) << parameter.name;
        EXPECT_NEAR(moments.kurtosis, 3, 5 * 4.9 * unit_error) << parameter.name;
      }
    }
  }
}

TEST(Initializer, DenseIsUniformByItsInputs) {
  const DenseOptions options{.inputs = 16, .outputs = 40, .hidden = {400}};
  const ParameterFiller fill = dense_initializer(options, 3);
  const auto wide = filled(fill, "layers.0.weight", Span(0, 6400));
  const auto bias = filled(fill, "layers.1.bias", Span(0, 40));
  const auto [low, high] = std::minmax_element(wide.begin(), wide.end());
  EXPECT_GE(*low, -0.25F);
  EXPECT_LE(*high, 0.25F);
  EXPECT_LT(*low, -0.249F);
  EXPECT_GT(*high, 0.249F);
  EXPECT_NEAR(moments_of(wide).deviation, 0.25 / std::sqrt(3.0), 0.003);
  for (const float value : bias) EXPECT_LE(std::abs(value), 0.05F);
}

TEST(FillParameters, PlainModulesGetTheSameValues) {
  GptOptions options = llama_options();
  options.tied_head = true;
  Gpt model = filled_gpt(options, 6);
  const ParameterFiller fill = gpt_initializer(options, 6);
  for (const auto& parameter : model->named_parameters()) {
    const at::Tensor flat = parameter.value().detach().reshape({-1});
    const std::vector<float> values(flat.const_data_ptr<float>(),
                                    flat.const_data_ptr<float>() + flat.numel());
    EXPECT_EQ(values, filled(fill, parameter.key(), Span(0, flat.numel()))) << parameter.key();
  }
}

}  // namespace
}  // namespace zeroshard::test
