// What the plan is made from is what the engine finds in the built model.
#include <gtest/gtest.h>

#include "tests/models/model_run.h"
#include "zeroshard/engine/find_units.h"
#include "zeroshard/models/dense.h"
#include "zeroshard/models/shapes.h"

namespace zeroshard::test {
namespace {

void expect_same(const std::vector<UnitShapes>& shapes, torch::nn::Module& model) {
  const std::vector<FoundUnit> found = find_units(model);
  ASSERT_EQ(shapes.size(), found.size());
  std::int64_t count = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(shapes[i].name, found[i].spec.name);
    ASSERT_EQ(shapes[i].parameters.size(), found[i].spec.parameters.size()) << shapes[i].name;
    for (std::size_t p = 0; p < shapes[i].parameters.size(); ++p) {
      const NamedParameter& real = found[i].spec.parameters[p];
      EXPECT_EQ(shapes[i].parameters[p].name, real.name);
      EXPECT_EQ(shapes[i].parameters[p].dims, real.tensor.sizes().vec()) << real.name;
      EXPECT_EQ(shapes[i].parameters[p].numel(), real.tensor.numel());
      count += real.tensor.numel();
    }
  }
  std::int64_t named = 0;
  for (const auto& parameter : model.parameters()) named += parameter.numel();
  EXPECT_EQ(count, named);
}

TEST(UnitShapes, AllKindsOfGpt) {
  for (int bits = 0; bits < 32; ++bits) {
    GptOptions options = gpt2_options();
    options.positions = (bits & 1) != 0 ? Positions::rotary : Positions::learned;
    options.norm = (bits & 2) != 0 ? NormKind::rms : NormKind::layer;
    options.activation = (bits & 4) != 0 ? Activation::swiglu : Activation::gelu;
    options.tied_head = (bits & 8) != 0;
    options.kv_heads = (bits & 16) != 0 ? 1 : 0;
    SCOPED_TRACE(bits);
    Gpt model(options);
    expect_same(unit_shapes(options), *model);
  }
}

TEST(UnitShapes, Dense) {
  for (const DenseOptions& options :
       {DenseOptions{}, DenseOptions{.inputs = 3, .outputs = 2, .hidden = {5, 4}}}) {
    Dense model(options);
    expect_same(unit_shapes(options), *model);
  }
}

TEST(UnitShapes, OnlyATiedTableLiesInTheRoot) {
  GptOptions options = gpt2_options();
  EXPECT_TRUE(unit_shapes(options)[0].parameters.empty());
  options.tied_head = true;
  const UnitShapes root = unit_shapes(options)[0];
  ASSERT_EQ(root.parameters.size(), 2U);
  EXPECT_EQ(root.parameters[0].name, "embedding.tokens");
}

TEST(UnitShapes, DtypeIsTheOneAskedFor) {
  const std::vector<UnitShapes> units = unit_shapes(gpt2_options(), DType::bf16);
  EXPECT_EQ(units[1].parameters[0].dtype, DType::bf16);
}

// GPT-2 small, tied: the count everybody knows.
TEST(ParameterCount, Gpt2Small) {
  const GptOptions options{.layers = 12,
                           .hidden = 768,
                           .heads = 12,
                           .sequence = 1024,
                           .vocabulary = 50257,
                           .tied_head = true};
  EXPECT_EQ(parameter_count(options), 124'439'808);
}

// Llama 2 7B: its published count.
TEST(ParameterCount, Llama7B) {
  const GptOptions options{.layers = 32,
                           .hidden = 4096,
                           .heads = 32,
                           .sequence = 4096,
                           .vocabulary = 32000,
                           .positions = Positions::rotary,
                           .norm = NormKind::rms,
                           .activation = Activation::swiglu,
                           .mlp_width = 11008};
  EXPECT_EQ(parameter_count(options), 6'738'415'616);
}

}  // namespace
}  // namespace zeroshard::test
