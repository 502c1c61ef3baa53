// HuggingFace's decoders by their config.json: the number of parameters that everybody knows, and
// what is refused.
#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/models/hf_layout.h"
#include "zeroshard/models/hf_model.h"
#include "zeroshard/models/transformer_shape.h"

namespace zeroshard {
namespace {

struct Known {
  const char* name;
  std::int64_t parameters;
  const char* json;
};

// As the models' own files have them.
constexpr Known kKnown[] = {
    {"gpt2", 124'439'808,
     R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
         "vocab_size": 50257})"},
    {"gpt2-xl", 1'557'611'200,
     R"({"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25, "n_positions": 1024,
         "vocab_size": 50257, "n_inner": null})"},
    {"llama-2-7b", 6'738'415'616,
     R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
         "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
         "vocab_size": 32000, "tie_word_embeddings": false})"},
    {"llama-3-8b", 8'030'261'248,
     R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
         "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
         "vocab_size": 128256, "max_position_embeddings": 8192})"},
    {"llama-3.2-1b", 1'235'814'400,
     R"({"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "head_dim": 64,
         "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
         "vocab_size": 128256, "tie_word_embeddings": true})"},
    {"mistral-7b", 7'241'732'096,
     R"({"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
         "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
         "vocab_size": 32000})"},
    {"qwen2-0.5b", 494'032'768,
     R"({"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
         "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
         "vocab_size": 151936, "tie_word_embeddings": true})"},
    {"qwen3-0.6b", 596'049'920,
     R"({"model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "head_dim": 128,
         "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
         "vocab_size": 151936, "tie_word_embeddings": true, "attention_bias": false})"},
    {"gemma-2b", 2'506'172'416,
     R"({"model_type": "gemma", "hidden_size": 2048, "intermediate_size": 16384, "head_dim": 256,
         "num_attention_heads": 8, "num_hidden_layers": 18, "num_key_value_heads": 1,
         "vocab_size": 256000})"},
    {"gemma-2-2b", 2'614'341'888,
     R"({"model_type": "gemma2", "hidden_size": 2304, "intermediate_size": 9216, "head_dim": 256,
         "num_attention_heads": 8, "num_hidden_layers": 26, "num_key_value_heads": 4,
         "vocab_size": 256000})"},
    {"phi-2", 2'779'683'840,
     R"({"model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240,
         "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 51200})"},
    {"phi-3-mini", 3'821'079'552,
     R"({"model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192,
         "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
         "vocab_size": 32064})"},
};

TEST(TransformerShape, ParametersAreTheKnownNumbers) {
  for (const Known& known : kKnown) {
    const auto model = hf_model(read_transformer_shape(known.json, "config.json"));
    EXPECT_EQ(model->parameters(), known.parameters) << known.name;
    EXPECT_EQ(model->layout(DType::bf16, 8).totals().numel, known.parameters) << known.name;
  }
}

TEST(TransformerShape, AMultimodalModelsDecoderIsInASection) {
  const TransformerShape shape = read_transformer_shape(
      R"({"model_type": "gemma3", "vision_config": {}, "text_config": {"hidden_size": 2560,
          "intermediate_size": 10240, "num_attention_heads": 8, "num_hidden_layers": 34,
          "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208}})",
      "config.json");
  EXPECT_EQ(shape.layers, 34);
  EXPECT_TRUE(shape.head_norms);
  ASSERT_EQ(shape.notes.size(), 1U);
  EXPECT_EQ(shape.notes[0], "the decoder alone: what vision_config describes is left out");
}

// The section of gemma-3-4b-it's config.json, which leaves out what is usual for its kind.
TEST(TransformerShape, WhatASectionLeavesOutIsAsTransformersHasIt) {
  const TransformerShape shape = read_transformer_shape(
      R"({"model_type": "gemma3", "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
          "model_type": "gemma3_text", "num_hidden_layers": 34, "sliding_window": 1024}})",
      "config.json");
  EXPECT_EQ(shape.vocabulary, 262208);
  EXPECT_EQ(shape.heads, 8);
  EXPECT_EQ(shape.kv_heads, 4);
  EXPECT_EQ(shape.head_width, 256);
  EXPECT_EQ(hf_model(shape)->parameters(), 3'880'263'168) << "its decoder, the table once";
  ASSERT_EQ(shape.notes.size(), 1U);
  EXPECT_EQ(shape.notes[0],
            "not in config.json, so as transformers has it for gemma3: num_attention_heads 8, "
            "vocab_size 262208");
}

// The numbers of parameters of transformers' own models of two layers and a width of 1024, all else
// as their configurations have it.
TEST(TransformerShape, TheRestIsAsTransformersHasItForEachKind) {
  struct Kind {
    const char* type;
    std::int64_t parameters;
  };
  constexpr Kind kAll[] = {
      {"llama", 141'562'880},       {"mistral", 158'864'384}, {"qwen2", 454'831'104},
      {"qwen3", 479'991'296},       {"gemma", 446'698'496},   {"gemma2", 331'359'232},
      {"gemma3_text", 337'717'248}, {"phi", 146'884'608},     {"phi3", 124'392'448},
      {"smollm3", 204'215'296},
  };
  for (const Kind& kind : kAll) {
    const std::string json = std::string(R"({"model_type": ")") + kind.type +
                             R"(", "num_hidden_layers": 2, "hidden_size": 1024})";
    EXPECT_EQ(hf_model(read_transformer_shape(json, "config.json"))->parameters(), kind.parameters)
        << kind.type;
  }
}

// Rank 16 on queries and values of 32 layers: 16 x (4096 + 4096) + 16 x (4096 + 1024) each.
TEST(TransformerShape, AdaptersTrainAndAllElseIsFrozen) {
  const TransformerShape shape = read_transformer_shape(kKnown[3].json, "config.json");
  const auto model = hf_model(shape, {.lora_rank = 16});
  const LayoutTotals totals = model->layout(DType::bf16, 1).totals();
  EXPECT_EQ(totals.trainable_numel, 32 * (16 * 8192 + 16 * 5120));
  EXPECT_EQ(totals.numel, kKnown[3].parameters + totals.trainable_numel);
}

// Frozen weights need no inputs for their gradients, and before the first adapter there is none.
TEST(TransformerShape, AdaptersKeepFewerActivations) {
  const TransformerShape shape = read_transformer_shape(kKnown[3].json, "config.json");
  const auto kept = [&](const HfModelOptions& options) {
    std::int64_t sum = 0;
    const auto all = hf_model(shape, options)->activations({.sequence = 2048});
    for (const UnitActivations& use : all->uses) sum += use.kept;
    return sum;
  };
  const std::int64_t all = kept({}), adapters = kept({.lora_rank = 16});
  const std::int64_t checkpointed = kept({.checkpoint_activations = true});
  EXPECT_LT(adapters, all * 9 / 10);
  EXPECT_LT(checkpointed, all / 5);
}

TEST(TransformerShape, UnitsAreThoseOfThePythonPackage) {
  const HfUnits untied = hf_units(read_transformer_shape(kKnown[2].json, "c"), {}, DType::bf16);
  ASSERT_EQ(untied.units.size(), 1U + 1 + 32 + 1);  // root, embedding, blocks, head
  EXPECT_EQ(untied.units[0].parameters.size(), 1U) << "the last norm";
  EXPECT_EQ(untied.head, untied.units.size() - 1);
  const HfUnits tied = hf_units(read_transformer_shape(kKnown[4].json, "c"), {}, DType::bf16);
  ASSERT_EQ(tied.units.size(), 1U + 16);
  EXPECT_EQ(tied.tokens, 0U);
  EXPECT_EQ(tied.head, 0U);
}

TEST(TransformerShape, NonsenseIsRefusedInASentence) {
  const auto refusal = [](const std::string& json) -> std::string {
    try {
      read_transformer_shape(json, "config.json");
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal(R"({"model_type": "mixtral"})"),
            "[config] config.json is of a model_type whose shapes are not known here: mixtral; "
            "give --params and --layers instead");
  EXPECT_NE(refusal(R"({"model_type": "llama"})").find("num_hidden_layers is missing"),
            std::string::npos);
  EXPECT_NE(refusal("[]").find("no JSON object"), std::string::npos);
  EXPECT_NE(refusal("{").find("no JSON object"), std::string::npos);
  const std::string odd = R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 64,
      "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 3,
      "vocab_size": 100})";
  EXPECT_NE(refusal(odd).find("heads that do not divide"), std::string::npos) << refusal(odd);
  const std::string llama = R"({"model_type": "llama", "num_hidden_layers": 2, )";
  EXPECT_NE(refusal(llama + R"("hidden_size": 100, "num_attention_heads": 3})").find("not divide"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 100, "n_head": 3})")
                .find("not divide"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"model_type": "qwen3", "num_experts": 128})").find("has experts"),
            std::string::npos);
  EXPECT_EQ(refusal(R"({"model_type": "qwen3", "num_experts": 0, "hidden_size": 1024,
                        "num_hidden_layers": 2, "head_dim": null})"),
            "accepted");
  for (const char* large : {R"("hidden_size": 4294967296)", R"("vocab_size": 4294967296)",
                            R"("num_hidden_layers": 100000000)"}) {
    const std::string json = std::string(R"({"model_type": "llama", )") + large +
                             R"(, "num_hidden_layers": 2, "hidden_size": 64})";
    EXPECT_NE(refusal(json).find("is out of range"), std::string::npos) << refusal(json);
  }
  for (const char* value : {"0", "-4", "1.5", "\"many\"", "1e30", "99999999999999999999"}) {
    const std::string json = std::string(R"({"model_type": "gpt2", "n_layer": )") + value + "}";
    EXPECT_NE(refusal(json).find("is no size"), std::string::npos) << refusal(json);
  }
}

}  // namespace
}  // namespace zeroshard
