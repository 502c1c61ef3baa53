// Which of the built-in models are HuggingFace's, and that every number of ours has a place there.
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "zeroshard/models/hf_names.h"
#include "zeroshard/models/shapes.h"
#include "zeroshard/models/spec.h"

namespace zeroshard {
namespace {

std::optional<HfNames> names_of(const std::string& settings) {
  return hf_names(std::get<GptOptions>(read_model("gpt:layers=3,hidden=32,heads=4," + settings)));
}

constexpr const char* kLlama = "positions=rotary,norm=rms,activation=swiglu";

TEST(HfNames, AreThoseOfTwoArchitectures) {
  for (const char* gpt2 : {"seq=16", "tied=true", "mlp=48", "kv_heads=4"}) {
    ASSERT_TRUE(names_of(gpt2)) << gpt2;
    EXPECT_NE(names_of(gpt2)->config.find("\"gpt2\""), std::string::npos);
  }
  for (const char* more : {"", ",kv_heads=1", ",tied=true", ",rope_theta=7"}) {
    ASSERT_TRUE(names_of(std::string(kLlama) + more)) << more;
    EXPECT_NE(names_of(std::string(kLlama) + more)->config.find("\"llama\""), std::string::npos);
  }
  for (const char* other : {"kv_heads=2", "positions=rotary", "norm=rms", "activation=swiglu",
                            "positions=rotary,norm=rms", "positions=rotary,activation=swiglu",
                            "norm=rms,activation=swiglu"}) {
    EXPECT_FALSE(names_of(other)) << other;
  }
}

TEST(HfNames, HavePlaceForEveryNumberOnce) {
  for (const std::string& settings :
       {std::string("tied=true"), std::string("seq=9"), kLlama + std::string(",kv_heads=2")}) {
    std::map<std::string, std::int64_t> numbers;
    const HfNames names = names_of(settings).value();
    for (const HfTensor& tensor : names.tensors) {
      numbers[tensor.from] += std::accumulate(tensor.dims.begin(), tensor.dims.end(),
                                              std::int64_t{1}, std::multiplies<>{});
    }
    std::map<std::string, std::int64_t> ours;
    const ModelOptions model = read_model("gpt:layers=3,hidden=32,heads=4," + settings);
    for (const UnitShapes& unit : unit_shapes(model)) {
      for (const ParameterShape& shape : unit.parameters) ours[shape.name] = shape.numel();
    }
    EXPECT_EQ(numbers, ours);
  }
}

}  // namespace
}  // namespace zeroshard
