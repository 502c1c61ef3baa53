// The decoders of HuggingFace's library, by their shapes: what a plan needs of a model that is not
// here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zeroshard {

struct TransformerShape {
  std::string type;  // HuggingFace's model_type
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_width = 0;
  std::int64_t mlp_width = 0;
  std::int64_t vocabulary = 0;
  std::int64_t sequence = 0;       // the longest
  std::int64_t position_rows = 0;  // of a learned table; 0: rotary

  enum class Norm {
    layer,     // one operator
    rms,       // in fp32, rounded, then times the weight
    wide_rms,  // times the weight in fp32, then rounded: Gemma's
  };
  Norm norm = Norm::rms;
  int norms_of_block = 2;   // of whole rows
  bool head_norms = false;  // of queries and keys, head by head

  enum class Activation { swiglu, geglu, gelu_of_simple_operators };
  Activation activation = Activation::swiglu;

  bool qkv_bias = false;
  bool out_bias = false;
  bool mlp_bias = false;
  bool head_bias = false;
  bool tied = false;
  bool joined = false;   // queries, keys and values are one matrix, gate and up another
  bool dropout = false;  // while it trains, behind the embedding and each sum

  // What the file does not say and was taken as transformers has it, and what of it is left out.
  std::vector<std::string> notes = {};

  bool gated() const { return activation != Activation::gelu_of_simple_operators; }
  bool norm_bias() const { return norm == Norm::layer; }
  std::int64_t q_width() const { return heads * head_width; }
  std::int64_t kv_width() const { return kv_heads * head_width; }
};

// Reads a config.json of HuggingFace's by its shape fields: GPT-2, Llama, Mistral, Qwen, Gemma and
// Phi. What is missing is as transformers has it for that kind, but for layers and width. Throws
// ConfigError: no JSON, a kind that is not known, a field that is missing or no size, experts.
TransformerShape read_transformer_shape(std::string_view json, const std::string& source);

}  // namespace zeroshard
