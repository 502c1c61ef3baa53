// Models as text: what is read, what is refused and how, and that config.json loses nothing.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "zeroshard/base/counter_random.h"
#include "zeroshard/base/error.h"
#include "zeroshard/models/spec.h"

namespace zeroshard::test {
namespace {

std::string refusal(const std::string& text) {
  try {
    read_model(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

std::string json_refusal(std::string_view json) {
  try {
    model_from_json(json);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ReadModel, EveryKey) {
  const GptOptions expected{.layers = 3,
                            .hidden = 96,
                            .heads = 6,
                            .kv_heads = 2,
                            .sequence = 64,
                            .vocabulary = 1000,
                            .positions = Positions::rotary,
                            .norm = NormKind::rms,
                            .activation = Activation::swiglu,
                            .tied_head = true,
                            .mlp_width = 250,
                            .rope_theta = 5e5,
                            .checkpoint_activations = true};
  EXPECT_EQ(read_model("gpt:layers=3,hidden=96,heads=6,kv_heads=2,seq=64,vocab=1000,"
                       "positions=rotary,norm=rms,activation=swiglu,tied=true,mlp=250,theta=5e5,"
                       "checkpoint=true"),
            ModelOptions(expected));
  EXPECT_EQ(read_model("gpt: layers = 3, hidden=96,heads=6,kv_heads=2,sequence=64,vocabulary=1000,"
                       "positions=rotary,norm=rms,activation=swiglu,tied_head=true,mlp_width=250,"
                       "rope_theta=500000,checkpoint_activations=true"),
            ModelOptions(expected));
}

TEST(ReadModel, Defaults) {
  EXPECT_EQ(read_model("gpt"), ModelOptions(GptOptions{}));
  EXPECT_EQ(read_model("gpt:"), ModelOptions(GptOptions{}));
  EXPECT_EQ(read_model("dense:inputs=1,outputs=1"), ModelOptions(DenseOptions{}));
  EXPECT_EQ(read_model("dense:hidden=64x32"), ModelOptions(DenseOptions{.hidden = {64, 32}}));
}

TEST(ReadModel, WrongKeysNameTheNearest) {
  EXPECT_EQ(refusal("gpt:layer=4"),
            "[config] the model has an unknown key: layer; did you mean "
            "layers?");
  EXPECT_EQ(refusal("dense:input=4"),
            "[config] the model has an unknown key: input; did you mean "
            "inputs?");
  EXPECT_EQ(refusal("dense:colour=4"),
            "[config] the model has an unknown key: colour; known are inputs, outputs, hidden");
  EXPECT_EQ(refusal("gpr:layers=4"),
            "[config] the model is of an unknown kind: gpr; did you mean "
            "gpt?");
  EXPECT_EQ(refusal("gpt:layers=4,seq=8,sequence=9"),
            "[config] the model has sequence twice; keep one of the two");
  EXPECT_EQ(refusal("gpt:layers"),
            "[config] the model has a key without a value: layers; write key=value, with commas "
            "between them");
}

TEST(ReadModel, WrongValues) {
  EXPECT_EQ(refusal("gpt:layers=four"),
            "[config] the model has a wrong value of layers: four; give a whole number");
  EXPECT_EQ(refusal("gpt:tied=yes"),
            "[config] the model has a wrong value of tied: yes; give true or false");
  EXPECT_EQ(refusal("gpt:norm=batch"),
            "[config] the model has a wrong value of norm: batch; give layer or rms");
  for (const char* text : {"gpt:layers=", "gpt:layers=4.5", "gpt:layers=4 4", "gpt:theta=x",
                           "gpt:layers=99999999999999999999", "dense:hidden=64x", "dense:hidden=x",
                           "dense:hidden=6xx4", "gpt:positions=", "gpt:layers=0x10"}) {
    EXPECT_NE(refusal(text).find("wrong value"), std::string::npos) << text;
  }
}

TEST(ReadModel, OptionsThatDoNotFitEachOther) {
  EXPECT_EQ(refusal("gpt:hidden=100,heads=3"),
            "[config] the model's hidden is no multiple of its heads: 100 and 3; choose hidden "
            "that heads divides");
  EXPECT_EQ(refusal("gpt:heads=4,kv_heads=3"),
            "[config] the model's heads is no multiple of its kv_heads: 4 and 3; choose heads that "
            "kv_heads divides");
  EXPECT_EQ(refusal("gpt:hidden=12,heads=4,positions=rotary"),
            "[config] rotary positions need an even head width, hidden / heads: 12 / 4 = 3; change "
            "hidden or heads, or take learned positions");
  EXPECT_EQ(refusal("gpt:layers=0"),
            "[config] the model's layers is out of range: 0; give 1 to "
            "10000");
  for (const char* text :
       {"gpt:hidden=0", "gpt:hidden=-8", "gpt:heads=0", "gpt:seq=0", "gpt:vocab=-1", "gpt:mlp=-1",
        "gpt:kv_heads=-2", "gpt:heads=4,kv_heads=8", "gpt:hidden=1000000000000,heads=1",
        "gpt:theta=0", "gpt:theta=inf", "gpt:theta=nan", "dense:inputs=0", "dense:hidden=4x0"}) {
    EXPECT_NE(refusal(text), "accepted") << text;
  }
}

TEST(ReadModel, FilesAndFolders) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "zeroshard_spec";
  std::filesystem::create_directories(folder);
  const ModelOptions options = GptOptions{.layers = 7, .tied_head = true};
  std::ofstream(folder / "config.json") << to_json(options);
  EXPECT_EQ(read_model((folder / "config.json").string()), options);
  EXPECT_EQ(read_model(folder.string()), options);
  std::ofstream(folder / "config.json") << R"({"model_type": "gpt", "layer": 3})";
  EXPECT_EQ(refusal(folder.string()), "[config] " + (folder / "config.json").string() +
                                          " has an unknown key: layer; did you mean layers?");
  std::filesystem::remove(folder / "config.json");
  EXPECT_NE(refusal(folder.string()).find("there is no config.json in the model's folder: "),
            std::string::npos);
  std::filesystem::remove_all(folder);
  EXPECT_NE(refusal("/dev/zero").find("more than 1 MiB"), std::string::npos) << "it has no end";
  for (const std::string& text : {folder.string(), std::string(), std::string("./nothing.json")}) {
    EXPECT_NE(refusal(text).find("there is no such model"), std::string::npos) << text;
  }
}

TEST(ModelJson, Refusals) {
  EXPECT_EQ(json_refusal(R"({"layers": 3})"),
            "[config] the model cannot be read as a model's JSON: no model_type; add "
            "\"model_type\": \"gpt\" or \"dense\"");
  EXPECT_NE(json_refusal(R"({"model_type": "gpt", "layers": 3,)").find("mend it at byte"),
            std::string::npos);
  EXPECT_EQ(json_refusal(R"({"model_type": "llama", "layers": 3})"),
            "[config] the model is of a model_type that is not built in: llama; built in are gpt "
            "and dense; models of HuggingFace's are trained by a script of theirs, with "
            "`zeroshard run`");
  for (const char* json :
       {"", "[]", "3", R"({"model_type": "gpt", "layers": null})",
        R"({"model_type": "gpt", "layers": {}})", R"({"model_type": "gpt", "layers": [3, []]})",
        R"({"model_type": "gpt", "model_type": "dense"})",
        R"({"model_type": "gpt", "layers": 3.5})",
        R"({"model_type": "gpt", "layers": 3, "layers": 4})", R"({"model_type": 4})"}) {
    EXPECT_NE(json_refusal(json), "accepted") << json;
  }
  EXPECT_NE(json_refusal(std::string(200'000, '[')), "accepted");
}

TEST(ModelJson, ReadingBackGivesTheSame) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const CounterRandom random("spec", seed);
    const auto pick = [&](std::uint64_t element, double below) {
      return static_cast<std::int64_t>(random.uniform(element) * below);
    };
    GptOptions gpt;
    gpt.kv_heads = pick(0, 3);
    gpt.heads = (1 + pick(1, 20)) * std::max<std::int64_t>(gpt.kv_heads, 1);
    gpt.hidden = gpt.heads * 2 * (1 + pick(2, 64));
    gpt.layers = 1 + pick(3, 100);
    gpt.sequence = 1 + pick(4, 1e6);
    gpt.vocabulary = 1 + pick(5, 1e6);
    gpt.positions = static_cast<Positions>(pick(6, 2));
    gpt.norm = static_cast<NormKind>(pick(7, 2));
    gpt.activation = static_cast<Activation>(pick(8, 2));
    gpt.tied_head = pick(9, 2) == 1;
    gpt.mlp_width = pick(10, 1000);
    gpt.rope_theta = std::exp(20 * random.normal(11));
    gpt.checkpoint_activations = pick(12, 2) == 1;
    EXPECT_EQ(model_from_json(to_json(gpt)), ModelOptions(gpt)) << to_json(gpt);
    DenseOptions dense{.inputs = 1 + pick(13, 1e6), .outputs = 1 + pick(14, 1e6)};
    for (std::int64_t i = pick(15, 4); i > 0; --i) dense.hidden.push_back(1 + pick(15 + i, 1e6));
    EXPECT_EQ(model_from_json(to_json(dense)), ModelOptions(dense)) << to_json(dense);
  }
}

TEST(ShortDescription, OneLine) {
  EXPECT_EQ(short_description(GptOptions{}),
            "gpt, 875 K parameters: 4 layers, hidden 128, 4 heads, sequence 128, vocabulary 256, "
            "learned positions, layer norm, gelu");
  EXPECT_EQ(short_description(read_model("gpt:kv_heads=2,norm=rms,tied=true")),
            "gpt, 771 K parameters: 4 layers, hidden 128, 4 heads (2 kv), sequence 128, vocabulary "
            "256, learned positions, rms norm, gelu, tied head");
  EXPECT_EQ(short_description(DenseOptions{.hidden = {8}}), "dense, 25 parameters: widths 1, 8, 1");
}

}  // namespace
}  // namespace zeroshard::test
