#include "zeroshard/models/hf_names.h"

#include <utility>

#include <fmt/format.h>

namespace zeroshard {
namespace {

bool is_gpt2(const GptOptions& gpt) {
  return gpt.positions == Positions::learned && gpt.norm == NormKind::layer &&
         gpt.activation == Activation::gelu && gpt.effective_kv_heads() == gpt.heads;
}

bool is_llama(const GptOptions& gpt) {
  return gpt.positions == Positions::rotary && gpt.norm == NormKind::rms &&
         gpt.activation == Activation::swiglu;
}

class Gpt2 {
 public:
  explicit Gpt2(const GptOptions& gpt) : gpt_(gpt) {}

  HfNames names() {
    add("wte.weight", "embedding.tokens", {gpt_.vocabulary, gpt_.hidden});
    add("wpe.weight", "embedding.positions", {gpt_.sequence, gpt_.hidden});
    for (std::int64_t i = 0; i < gpt_.layers; ++i) add_block(i);
    add_norm("ln_f", "head.norm");
    if (!gpt_.tied_head) {
      all_.tensors.push_back({"lm_head.weight", "head.out.weight", {gpt_.vocabulary, gpt_.hidden}});
    }
    all_.config = config();
    return std::move(all_);
  }

 private:
  void add(const std::string& name, const std::string& from, std::vector<std::int64_t> dims) {
    all_.tensors.push_back({"transformer." + name, from, std::move(dims)});
  }
  void add_norm(const std::string& name, const std::string& from) {
    add(name + ".weight", from + ".weight", {gpt_.hidden});
    add(name + ".bias", from + ".bias", {gpt_.hidden});
  }
  // Its Conv1D keeps inputs first.
  void add_linear(const std::string& name, const std::string& from, std::int64_t inputs,
                  std::int64_t outputs) {
    add(name + ".weight", from + ".weight", {inputs, outputs});
    all_.tensors.back().transposed = true;
    add(name + ".bias", from + ".bias", {outputs});
  }

  void add_block(std::int64_t index) {
    const std::string to = fmt::format("h.{}.", index), from = fmt::format("blocks.{}.", index);
    const std::int64_t hidden = gpt_.hidden, wide = gpt_.effective_mlp_width();
    add_norm(to + "ln_1", from + "attention_norm");
    add_linear(to + "attn.c_attn", from + "attention.qkv", hidden, gpt_.qkv_width());
    add_linear(to + "attn.c_proj", from + "attention.out", hidden, hidden);
    add_norm(to + "ln_2", from + "mlp_norm");
    add_linear(to + "mlp.c_fc", from + "mlp.up", hidden, wide);
    add_linear(to + "mlp.c_proj", from + "mlp.down", wide, hidden);
  }

  std::string config() const {
    return fmt::format(
        R"({{
  "architectures": ["GPT2LMHeadModel"],
  "model_type": "gpt2",
  "vocab_size": {},
  "n_positions": {},
  "n_embd": {},
  "n_layer": {},
  "n_head": {},
  "n_inner": {},
  "activation_function": "gelu_new",
  "layer_norm_epsilon": 1e-05,
  "resid_pdrop": 0.0,
  "embd_pdrop": 0.0,
  "attn_pdrop": 0.0,
  "tie_word_embeddings": {},
  "bos_token_id": null,
  "eos_token_id": null,
  "torch_dtype": "float32"
}}
)",
        gpt_.vocabulary, gpt_.sequence, gpt_.hidden, gpt_.layers, gpt_.heads,
        gpt_.effective_mlp_width(), gpt_.tied_head);
  }

  const GptOptions& gpt_;
  HfNames all_;
};

class Llama {
 public:
  explicit Llama(const GptOptions& gpt) : gpt_(gpt) {}

  HfNames names() {
    add("model.embed_tokens", "embedding.tokens", {gpt_.vocabulary, gpt_.hidden});
    for (std::int64_t i = 0; i < gpt_.layers; ++i) add_block(i);
    add("model.norm", "head.norm.weight", {gpt_.hidden});
    if (!gpt_.tied_head) add("lm_head", "head.out.weight", {gpt_.vocabulary, gpt_.hidden});
    all_.config = config();
    return std::move(all_);
  }

 private:
  void add(const std::string& name, const std::string& from, std::vector<std::int64_t> dims,
           std::int64_t first_row = 0) {
    all_.tensors.push_back({name + ".weight", from, std::move(dims), first_row});
  }

  void add_block(std::int64_t index) {
    const std::string to = fmt::format("model.layers.{}.", index);
    const std::string from = fmt::format("blocks.{}.", index);
    const std::int64_t hidden = gpt_.hidden, wide = gpt_.effective_mlp_width();
    const std::int64_t keys = gpt_.effective_kv_heads() * gpt_.head_width();
    const std::string qkv = from + "attention.qkv.weight";
    add(to + "input_layernorm", from + "attention_norm.weight", {hidden});
    add(to + "self_attn.q_proj", qkv, {hidden, hidden});
    add(to + "self_attn.k_proj", qkv, {keys, hidden}, hidden);
    add(to + "self_attn.v_proj", qkv, {keys, hidden}, hidden + keys);
    add(to + "self_attn.o_proj", from + "attention.out.weight", {hidden, hidden});
    add(to + "post_attention_layernorm", from + "mlp_norm.weight", {hidden});
    add(to + "mlp.gate_proj", from + "mlp.gate.weight", {wide, hidden});
    add(to + "mlp.up_proj", from + "mlp.up.weight", {wide, hidden});
    add(to + "mlp.down_proj", from + "mlp.down.weight", {hidden, wide});
  }

  std::string config() const {
    return fmt::format(
        R"({{
  "architectures": ["LlamaForCausalLM"],
  "model_type": "llama",
  "vocab_size": {},
  "max_position_embeddings": {},
  "hidden_size": {},
  "intermediate_size": {},
  "num_hidden_layers": {},
  "num_attention_heads": {},
  "num_key_value_heads": {},
  "head_dim": {},
  "hidden_act": "silu",
  "rms_norm_eps": 1e-05,
  "rope_theta": {},
  "attention_bias": false,
  "mlp_bias": false,
  "tie_word_embeddings": {},
  "bos_token_id": null,
  "eos_token_id": null,
  "torch_dtype": "float32"
}}
)",
        gpt_.vocabulary, gpt_.sequence, gpt_.hidden, gpt_.effective_mlp_width(), gpt_.layers,
        gpt_.heads, gpt_.effective_kv_heads(), gpt_.head_width(), gpt_.rope_theta, gpt_.tied_head);
  }

  const GptOptions& gpt_;
  HfNames all_;
};

}  // namespace

std::optional<HfNames> hf_names(const GptOptions& options) {
  if (is_gpt2(options)) return Gpt2(options).names();
  if (is_llama(options)) return Llama(options).names();
  return std::nullopt;
}

}  // namespace zeroshard
