#include "zeroshard/models/transformer_shape.h"

#include <array>
#include <functional>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rapidjson/document.h>
#include <rapidjson/error/en.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/utf8.h"

namespace zeroshard {
namespace {

constexpr const char* kByCount = "give --params and --layers instead";

// What a plan can count.
constexpr std::int64_t kMostLayers = 10'000;
constexpr std::int64_t kMostWidth = std::int64_t{1} << 20U;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 24U;

// What transformers takes where a file does not say it.
struct Usual {
  std::int64_t layers = 32;
  std::int64_t hidden = 4096;
  std::int64_t heads = 32;
  std::int64_t kv_heads = 0;    // 0: as many as heads
  std::int64_t head_width = 0;  // 0: the width by the heads
  std::int64_t mlp_width = 11008;
  std::int64_t vocabulary = 32000;
  std::int64_t sequence = 2048;
  bool tied = false;
};

// A whole number of a config.json, and what it may be.
struct SizeField {
  const char* name;
  std::int64_t most;
};

constexpr SizeField kHidden{"hidden_size", kMostWidth}, kLayers{"num_hidden_layers", kMostLayers},
    kHeads{"num_attention_heads", kMostWidth}, kKvHeads{"num_key_value_heads", kMostWidth},
    kHeadWidth{"head_dim", kMostWidth}, kMlpWidth{"intermediate_size", 4 * kMostWidth},
    kVocabulary{"vocab_size", kMostTokens}, kSequence{"max_position_embeddings", kMostTokens};

// The fields of one config.json, with its name for messages. A section of a larger model's file
// leaves out what is usual, its layers and width included.
class Fields {
 public:
  Fields(const rapidjson::Value& object, const std::string& source, bool is_section = false)
      : object_(object), source_(source), is_section_(is_section) {}

  std::optional<std::int64_t> find(const SizeField& field) const {
    const auto member = object_.FindMember(field.name);
    if (member == object_.MemberEnd() || member->value.IsNull()) return std::nullopt;
    const rapidjson::Value& value = member->value;
    if (!value.IsInt64() || value.GetInt64() < 1) {
      throw ConfigError({.what = fmt::format("{} of {} is no size", field.name, source_),
                         .value = value.IsInt64() ? fmt::format("{}", value.GetInt64()) : "",
                         .remedy = "give a whole number from 1 on"});
    }
    if (value.GetInt64() > field.most) {
      throw ConfigError({.what = fmt::format("{} of {} is out of range", field.name, source_),
                         .value = fmt::format("{}", value.GetInt64()),
                         .remedy = fmt::format("give 1 to {}", field.most)});
    }
    return value.GetInt64();
  }

  // What makes a model what it is.
  std::int64_t size(const SizeField& field, std::int64_t usual) const {
    if (const auto found = find(field)) return *found;
    if (is_section_) return taken(field, usual);
    throw ConfigError({.what = source_ + " has no shape that is known here",
                       .value = fmt::format("{} is missing", field.name),
                       .remedy = kByCount});
  }

  std::int64_t size_or(const SizeField& field, std::int64_t usual) const {
    const auto found = find(field);
    return found ? *found : taken(field, usual);
  }

  // `usual` where it is missing, `derived` where it is null or nothing is usual.
  std::int64_t derived_or(const SizeField& field, std::int64_t usual, std::int64_t derived) const {
    if (const auto found = find(field)) return *found;
    return usual == 0 || object_.HasMember(field.name) ? derived : usual;
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

  std::int64_t number(const char* name) const {
    const auto member = object_.FindMember(name);
    return member != object_.MemberEnd() && member->value.IsInt64() ? member->value.GetInt64() : 0;
  }

  bool has_object(const char* name) const {
    const auto member = object_.FindMember(name);
    return member != object_.MemberEnd() && member->value.IsObject();
  }

  const std::vector<std::string>& taken() const { return taken_; }

 private:
  std::int64_t taken(const SizeField& field, std::int64_t usual) const {
    taken_.push_back(fmt::format("{} {}", field.name, usual));
    return usual;
  }

  const rapidjson::Value& object_;
  const std::string& source_;
  const bool is_section_;
  mutable std::vector<std::string> taken_;
};

using Read = TransformerShape (*)(const Fields&);

// The names that most of them share.
TransformerShape common(const Fields& fields, const Usual& usual) {
  TransformerShape shape{.layers = fields.size(kLayers, usual.layers),
                         .hidden = fields.size(kHidden, usual.hidden),
                         .heads = fields.size_or(kHeads, usual.heads),
                         .mlp_width = fields.size_or(kMlpWidth, usual.mlp_width),
                         .vocabulary = fields.size_or(kVocabulary, usual.vocabulary)};
  shape.kv_heads = fields.derived_or(kKvHeads, usual.kv_heads, shape.heads);
  const bool divides = shape.hidden % shape.heads == 0;
  shape.head_width =
      fields.derived_or(kHeadWidth, usual.head_width, divides ? shape.hidden / shape.heads : 0);
  shape.sequence = fields.find(kSequence).value_or(usual.sequence);
  shape.tied = fields.flag("tie_word_embeddings", usual.tied);
  return shape;
}

TransformerShape with_biases(TransformerShape shape, const Fields& fields) {
  shape.qkv_bias = shape.out_bias = fields.flag("attention_bias", false);
  shape.mlp_bias = fields.flag("mlp_bias", false);
  return shape;
}

TransformerShape llama(const Fields& fields) { return with_biases(common(fields, {}), fields); }

TransformerShape smollm3(const Fields& fields) {
  const Usual usual{.layers = 36,
                    .hidden = 2048,
                    .heads = 16,
                    .kv_heads = 4,
                    .vocabulary = 128256,
                    .sequence = 32768,
                    .tied = true};
  return with_biases(common(fields, usual), fields);
}

TransformerShape mistral(const Fields& fields) {
  return common(fields, {.kv_heads = 8, .mlp_width = 14336, .sequence = 131072});
}

constexpr Usual kQwen{.kv_heads = 32, .mlp_width = 22016, .vocabulary = 151936, .sequence = 32768};

TransformerShape qwen2(const Fields& fields) {
  TransformerShape shape = common(fields, kQwen);
  shape.qkv_bias = true;
  return shape;
}

TransformerShape qwen3(const Fields& fields) {
  Usual usual = kQwen;
  usual.head_width = 128;
  TransformerShape shape = with_biases(common(fields, usual), fields);
  shape.head_norms = true;
  return shape;
}

TransformerShape any_gemma(const Fields& fields, const Usual& usual) {
  TransformerShape shape = with_biases(common(fields, usual), fields);
  shape.norm = TransformerShape::Norm::wide_rms;
  shape.activation = TransformerShape::Activation::geglu;
  return shape;
}

TransformerShape gemma(const Fields& fields) {
  return any_gemma(fields, {.layers = 28,
                            .hidden = 3072,
                            .heads = 16,
                            .kv_heads = 16,
                            .head_width = 256,
                            .mlp_width = 24576,
                            .vocabulary = 256000,
                            .sequence = 8192,
                            .tied = true});
}

constexpr Usual kGemma2{.layers = 26,
                        .hidden = 2304,
                        .heads = 8,
                        .kv_heads = 4,
                        .head_width = 256,
                        .mlp_width = 9216,
                        .vocabulary = 256000,
                        .sequence = 8192,
                        .tied = true};

TransformerShape gemma2(const Fields& fields) {
  TransformerShape shape = any_gemma(fields, kGemma2);
  shape.norms_of_block = 4;
  return shape;
}

TransformerShape gemma3(const Fields& fields) {
  Usual usual = kGemma2;
  usual.vocabulary = 262208;
  usual.sequence = 131072;
  TransformerShape shape = any_gemma(fields, usual);
  shape.norms_of_block = 4;
  shape.head_norms = true;
  return shape;
}

TransformerShape phi(const Fields& fields) {
  TransformerShape shape =
      common(fields, {.layers = 24, .hidden = 2048, .mlp_width = 8192, .vocabulary = 51200});
  shape.norm = TransformerShape::Norm::layer;
  shape.norms_of_block = 1;  // attention and MLP side by side
  shape.activation = TransformerShape::Activation::gelu_of_simple_operators;
  shape.qkv_bias = shape.out_bias = shape.mlp_bias = shape.head_bias = true;
  return shape;
}

TransformerShape phi3(const Fields& fields) {
  TransformerShape shape =
      common(fields, {.hidden = 3072, .mlp_width = 8192, .vocabulary = 32064, .sequence = 4096});
  shape.joined = true;
  return shape;
}

TransformerShape gpt2(const Fields& fields) {
  TransformerShape shape{.layers = fields.size({"n_layer", kMostLayers}, 12),
                         .hidden = fields.size({"n_embd", kMostWidth}, 768),
                         .heads = fields.size_or({"n_head", kMostWidth}, 12),
                         .vocabulary = fields.size_or(kVocabulary, 50257)};
  shape.kv_heads = shape.heads;
  shape.head_width = shape.hidden % shape.heads == 0 ? shape.hidden / shape.heads : 0;
  shape.mlp_width = fields.find({"n_inner", 4 * kMostWidth}).value_or(4 * shape.hidden);
  shape.sequence = shape.position_rows = fields.find({"n_positions", kMostTokens}).value_or(1024);
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
                                       {"smollm3", smollm3}}};

const Kind& kind_of(const std::string& type, const std::string& source) {
  for (const Kind& kind : kKinds) {
    if (kind.type == type) return kind;
  }
  throw ConfigError({.what = source + " is of a model_type whose shapes are not known here",
                     .value = type.empty() ? "none" : shortened(type, 60),
                     .remedy = kByCount});
}

void check(const TransformerShape& shape, const std::string& source) {
  const bool halves = shape.position_rows > 0 || shape.head_width % 2 == 0;  // turned in halves
  const bool divides = shape.head_width > 0 && halves && shape.heads % shape.kv_heads == 0;
  const bool is_wide = shape.q_width() > 4 * kMostWidth || shape.kv_width() > 4 * kMostWidth;
  if (divides && !is_wide) return;
  throw ConfigError(
      {.what = source + " has heads that do not divide",
       .value = fmt::format("hidden {}, heads {}, key-value heads {}, head width {}", shape.hidden,
                            shape.heads, shape.kv_heads, shape.head_width),
       .remedy = "mend the file, or " + std::string(kByCount)});
}

// Of experts each token uses a few: what they take is not what a dense model takes.
void refuse_experts(const Fields& fields, const std::string& source) {
  for (const char* name : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    const std::int64_t experts = fields.number(name);
    if (experts <= 1) continue;
    throw ConfigError({.what = source + " has experts, which are not planned for",
                       .value = fmt::format("{} {}", name, experts),
                       .remedy = kByCount});
  }
}

std::vector<std::string> notes_of(const Fields& whole, const Fields& decoder,
                                  const std::string& type) {
  std::vector<std::string> notes;
  if (!decoder.taken().empty()) {
    notes.push_back(fmt::format("not in config.json, so as transformers has it for {}: {}", type,
                                fmt::join(decoder.taken(), ", ")));
  }
  for (const char* section : {"vision_config", "audio_config"}) {
    if (!whole.has_object(section)) continue;
    notes.push_back(fmt::format("the decoder alone: what {} describes is left out", section));
  }
  return notes;
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
  const Fields whole(document, source);
  const std::string type = whole.text("model_type");
  // A model of several kinds of input has its decoder's shape in a section.
  const bool has_section = whole.has_object("text_config");
  const Fields decoder(has_section ? document["text_config"] : document, source, has_section);
  const Kind& kind = kind_of(type, source);
  refuse_experts(decoder, source);
  TransformerShape shape = kind.read(decoder);
  shape.type = type;
  if (has_section) shape.tied = whole.flag("tie_word_embeddings", shape.tied);
  check(shape, source);
  shape.notes = notes_of(whole, decoder, type);
  return shape;
}

}  // namespace zeroshard
