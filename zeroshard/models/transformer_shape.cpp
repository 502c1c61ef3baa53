#include "zeroshard/models/transformer_shape.h"

#include <array>
#include <functional>
#include <optional>

#include <fmt/format.h>
#include <rapidjson/document.h>
#include <rapidjson/error/en.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/utf8.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kMostOfAnything = std::int64_t{1} << 32U;
constexpr const char* kByCount = "give --params and --layers instead";

// The fields of one config.json, with its name for messages.
class Fields {
 public:
  Fields(const rapidjson::Value& object, const std::string& source)
      : object_(object), source_(source) {}

  std::optional<std::int64_t> find(const char* name) const {
    const auto member = object_.FindMember(name);
    if (member == object_.MemberEnd() || member->value.IsNull()) return std::nullopt;
    const rapidjson::Value& value = member->value;
    if (!value.IsInt64() || value.GetInt64() < 1 || value.GetInt64() > kMostOfAnything) {
      throw ConfigError({.what = fmt::format("{} of {} is no size", name, source_),
                         .value = value.IsInt64() ? fmt::format("{}", value.GetInt64()) : "",
                         .remedy = "give a whole number from 1 on"});
    }
    return value.GetInt64();
  }

  std::int64_t size(const char* name) const {
    if (const auto found = find(name)) return *found;
    throw ConfigError({.what = source_ + " has no shape that is known here",
                       .value = fmt::format("{} is missing", name),
                       .remedy = kByCount});
  }

  bool flag(const char* name, bool otherwise) const {
    const auto member = object_.FindMember(name);
    return member != object_.MemberEnd() && member->value.IsBool() ? member->value.GetBool()
                                                                   : otherwise;
  }

  std::string text(const char* name) const {
    const auto member = object_.FindMember(name);
    if (member == object_.MemberEnd() || !member->value.IsString()) return {};
    return {member->value.GetString(), member->value.GetStringLength()};
  }

  bool has(const char* name) const { return object_.HasMember(name); }

 private:
  const rapidjson::Value& object_;
  const std::string& source_;
};

using Read = TransformerShape (*)(const Fields&);

// The names that most of them share.
TransformerShape common(const Fields& fields) {
  TransformerShape shape{.layers = fields.size("num_hidden_layers"),
                         .hidden = fields.size("hidden_size"),
                         .heads = fields.size("num_attention_heads"),
                         .mlp_width = fields.size("intermediate_size"),
                         .vocabulary = fields.size("vocab_size")};
  shape.kv_heads = fields.find("num_key_value_heads").value_or(shape.heads);
  shape.head_width = fields.find("head_dim").value_or(shape.hidden / shape.heads);
  shape.sequence = fields.find("max_position_embeddings").value_or(2048);
  shape.tied = fields.flag("tie_word_embeddings", false);
  return shape;
}

TransformerShape llama(const Fields& fields) {
  TransformerShape shape = common(fields);
  shape.qkv_bias = shape.out_bias = fields.flag("attention_bias", false);
  shape.mlp_bias = fields.flag("mlp_bias", false);
  return shape;
}

TransformerShape mistral(const Fields& fields) { return common(fields); }

TransformerShape qwen2(const Fields& fields) {
  TransformerShape shape = common(fields);
  shape.qkv_bias = true;
  return shape;
}

TransformerShape qwen3(const Fields& fields) {
  TransformerShape shape = llama(fields);
  shape.head_norms = true;
  if (!fields.has("head_dim")) shape.head_width = 128;
  return shape;
}

TransformerShape gemma(const Fields& fields) {
  TransformerShape shape = llama(fields);
  shape.norm = TransformerShape::Norm::wide_rms;
  shape.activation = TransformerShape::Activation::geglu;
  shape.tied = fields.flag("tie_word_embeddings", true);
  if (!fields.has("head_dim")) shape.head_width = 256;
  return shape;
}

TransformerShape gemma2(const Fields& fields) {
  TransformerShape shape = gemma(fields);
  shape.norms_of_block = 4;
  return shape;
}

TransformerShape gemma3(const Fields& fields) {
  TransformerShape shape = gemma2(fields);
  shape.head_norms = true;
  return shape;
}

TransformerShape phi(const Fields& fields) {
  TransformerShape shape = common(fields);
  shape.norm = TransformerShape::Norm::layer;
  shape.norms_of_block = 1;  // attention and MLP side by side
  shape.activation = TransformerShape::Activation::gelu_of_simple_operators;
  shape.qkv_bias = shape.out_bias = shape.mlp_bias = shape.head_bias = true;
  return shape;
}

TransformerShape phi3(const Fields& fields) {
  TransformerShape shape = common(fields);
  shape.joined = true;
  return shape;
}

TransformerShape gpt2(const Fields& fields) {
  TransformerShape shape{.layers = fields.size("n_layer"),
                         .hidden = fields.size("n_embd"),
                         .heads = fields.size("n_head"),
                         .vocabulary = fields.size("vocab_size")};
  shape.kv_heads = shape.heads;
  shape.head_width = shape.hidden / shape.heads;
  shape.mlp_width = fields.find("n_inner").value_or(4 * shape.hidden);
  shape.sequence = shape.position_rows = fields.find("n_positions").value_or(1024);
  shape.norm = TransformerShape::Norm::layer;
  shape.activation = TransformerShape::Activation::gelu_of_simple_operators;
  shape.qkv_bias = shape.out_bias = shape.mlp_bias = shape.joined = true;
  shape.dropout = true;
  shape.tied = fields.flag("tie_word_embeddings", true);
  return shape;
}

struct Kind {
  std::string_view type;
  Read read;
};

constexpr std::array<Kind, 13> kKinds{{{"gpt2", gpt2},
                                       {"llama", llama},
                                       {"mistral", mistral},
                                       {"ministral", mistral},
                                       {"qwen2", qwen2},
                                       {"qwen3", qwen3},
                                       {"gemma", gemma},
                                       {"gemma2", gemma2},
                                       {"gemma3", gemma3},
                                       {"gemma3_text", gemma3},
                                       {"phi", phi},
                                       {"phi3", phi3},
                                       {"smollm3", llama}}};

const Kind& kind_of(const std::string& type, const std::string& source) {
  for (const Kind& kind : kKinds) {
    if (kind.type == type) return kind;
  }
  throw ConfigError({.what = source + " is of a model_type whose shapes are not known here",
                     .value = type.empty() ? "none" : shortened(type, 60),
                     .remedy = kByCount});
}

void check(const TransformerShape& shape, const std::string& source) {
  const bool divides = shape.head_width > 0 && shape.heads % shape.kv_heads == 0;
  if (divides) return;
  throw ConfigError({.what = source + " has heads that do not divide",
                     .value = fmt::format("hidden {}, heads {}, key-value heads {}", shape.hidden,
                                          shape.heads, shape.kv_heads),
                     .remedy = "mend the file, or " + std::string(kByCount)});
}

}  // namespace

TransformerShape read_transformer_shape(std::string_view json, const std::string& source) {
  rapidjson::Document document;
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag |
                              rapidjson::kParseValidateEncodingFlag |
                              rapidjson::kParseNanAndInfFlag;
  document.Parse<kFlags>(json.data(), json.size());
  if (document.HasParseError() || !document.IsObject()) {
    throw ConfigError({.what = source + " is no JSON object",
                       .value = document.HasParseError()
                                    ? rapidjson::GetParseError_En(document.GetParseError())
                                    : "",
                       .remedy = "name a config.json"});
  }
  const std::string type = Fields(document, source).text("model_type");
  // A model of several kinds of input has its decoder's shape in a section.
  const auto nested = document.FindMember("text_config");
  const bool has_section = nested != document.MemberEnd() && nested->value.IsObject();
  const rapidjson::Value& shapes = has_section ? nested->value : document;
  TransformerShape shape = kind_of(type, source).read(Fields(shapes, source));
  shape.type = type;
  check(shape, source);
  return shape;
}

}  // namespace zeroshard
