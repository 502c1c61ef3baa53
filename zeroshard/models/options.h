// What the built-in models are made of; every default is written here and nowhere else.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

namespace zeroshard {

enum class Positions { learned, rotary };
// layer: as in GPT-2, and then every linear layer but the head has a bias. rms: as in Llama, where
// none has.
enum class NormKind { layer, rms };
enum class Activation { gelu, swiglu };

// A decoder that predicts the next token. The defaults are GPT-2's architecture, small.
struct GptOptions {
  std::int64_t layers = 4;
  std::int64_t hidden = 128;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0;  // 0: as many as heads
  std::int64_t sequence = 128;
  std::int64_t vocabulary = 256;
  Positions positions = Positions::learned;
  NormKind norm = NormKind::layer;
  Activation activation = Activation::gelu;
  bool tied_head = false;      // the head's matrix is the embedding's
  std::int64_t mlp_width = 0;  // 0: 4 * hidden for gelu; 8/3 * hidden to the next 64 for swiglu
  double rope_theta = 10000.0;
  bool checkpoint_activations = false;  // blocks are computed again in backward

  // What the zeros stand for.
  std::int64_t effective_kv_heads() const { return kv_heads == 0 ? heads : kv_heads; }
  std::int64_t effective_mlp_width() const {
    if (mlp_width != 0) return mlp_width;
    return activation == Activation::gelu ? 4 * hidden : (8 * hidden / 3 + 63) / 64 * 64;
  }
  std::int64_t head_width() const { return hidden / heads; }
  std::int64_t qkv_width() const { return (heads + 2 * effective_kv_heads()) * head_width(); }
  bool has_biases() const { return norm == NormKind::layer; }

  bool operator==(const GptOptions&) const = default;
};

// Linear layers with ReLU between them.
struct DenseOptions {
  std::int64_t inputs = 1;
  std::int64_t outputs = 1;
  std::vector<std::int64_t> hidden = {};  // widths in between; none: one linear layer

  bool operator==(const DenseOptions&) const = default;
};

using ModelOptions = std::variant<GptOptions, DenseOptions>;

}  // namespace zeroshard
