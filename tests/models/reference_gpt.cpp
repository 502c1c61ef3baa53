#include "tests/models/reference_gpt.h"

#include <cmath>
#include <numbers>

#include <ATen/ATen.h>

namespace zeroshard::test {
namespace {

class Reference {
 public:
  Reference(const Weights& weights, const GptOptions& options)
      : weights_(weights), options_(options) {}

  at::Tensor logits(const at::Tensor& tokens) const {
    at::Tensor x = weights_.at("embedding.tokens").index_select(0, tokens.reshape({-1}));
    x = x.reshape({tokens.size(0), tokens.size(1), options_.hidden});
    if (options_.positions == Positions::learned) {
      x = x + weights_.at("embedding.positions").slice(0, 0, tokens.size(1));
    }
    for (std::int64_t i = 0; i < options_.layers; ++i) x = block(x, "blocks." + std::to_string(i));
    const at::Tensor head =
        weights_.at(options_.tied_head ? "embedding.tokens" : "head.out.weight");
    return at::matmul(norm(x, "head.norm"), head.t());
  }

 private:
  at::Tensor linear(const at::Tensor& x, const std::string& name) const {
    const at::Tensor y = at::matmul(x, weights_.at(name + ".weight").t());
    return options_.norm == NormKind::layer ? y + weights_.at(name + ".bias") : y;
  }

  at::Tensor norm(const at::Tensor& x, const std::string& name) const {
    const at::Tensor weight = weights_.at(name + ".weight");
    if (options_.norm == NormKind::rms) {
      return x / ((x * x).mean(-1, true) + 1e-5).sqrt() * weight;
    }
    const at::Tensor centred = x - x.mean(-1, true);
    const at::Tensor variance = (centred * centred).mean(-1, true);
    return centred / (variance + 1e-5).sqrt() * weight + weights_.at(name + ".bias");
  }

  // Pairs (i, i + width / 2) as complex numbers, times e^(i * position * theta^(-2i / width)).
  at::Tensor rotate(const at::Tensor& x) const {
    const std::int64_t length = x.size(1), half = x.size(-1) / 2;
    const at::Tensor turns = at::empty({length, 1, half}, at::kComplexDouble);
    for (std::int64_t t = 0; t < length; ++t) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double frequency =
            std::pow(options_.rope_theta, -static_cast<double>(i) / static_cast<double>(half));
        turns.data_ptr<c10::complex<double>>()[t * half + i] =
            c10::polar(1.0, static_cast<double>(t) * frequency);
      }
    }
    const at::Tensor turned =
        at::complex(x.slice(-1, 0, half).contiguous(), x.slice(-1, half, 2 * half).contiguous()) *
        turns;
    return at::cat({at::real(turned), at::imag(turned)}, -1);
  }

  at::Tensor attention(const at::Tensor& x, const std::string& name) const {
    const std::int64_t rows = x.size(0), length = x.size(1), width = options_.head_width();
    const std::int64_t kv = options_.effective_kv_heads();
    const at::Tensor all = linear(x, name + ".qkv").reshape({rows, length, -1, width});
    at::Tensor q = all.slice(2, 0, options_.heads);
    at::Tensor k = all.slice(2, options_.heads, options_.heads + kv);
    const at::Tensor v = all.slice(2, options_.heads + kv, options_.heads + 2 * kv);
    if (options_.positions == Positions::rotary) {
      q = rotate(q);
      k = rotate(k);
    }
    const at::Tensor allowed = at::ones({length, length}, at::kBool).tril();
    std::vector<at::Tensor> heads;
    for (std::int64_t h = 0; h < options_.heads; ++h) {
      const std::int64_t shared = h / (options_.heads / kv);
      const at::Tensor scores = at::matmul(q.select(2, h), k.select(2, shared).transpose(1, 2)) /
                                std::sqrt(static_cast<double>(width));
      const at::Tensor powers = scores.exp() * allowed;
      heads.push_back(at::matmul(powers / powers.sum(-1, true), v.select(2, shared)));
    }
    return linear(at::cat(heads, -1), name + ".out");
  }

  at::Tensor mlp(const at::Tensor& x, const std::string& name) const {
    const at::Tensor up = linear(x, name + ".up");
    if (options_.activation == Activation::swiglu) {
      const at::Tensor gate = linear(x, name + ".gate");
      return linear(gate / (1.0 + (-gate).exp()) * up, name + ".down");
    }
    const at::Tensor inner = std::sqrt(2.0 / std::numbers::pi) * (up + 0.044715 * up.pow(3));
    return linear(0.5 * up * (1.0 + inner.tanh()), name + ".down");
  }

  at::Tensor block(const at::Tensor& x, const std::string& name) const {
    const at::Tensor y = x + attention(norm(x, name + ".attention_norm"), name + ".attention");
    return y + mlp(norm(y, name + ".mlp_norm"), name + ".mlp");
  }

  const Weights& weights_;
  const GptOptions options_;
};

}  // namespace

Weights double_weights(GptImpl& model) {
  Weights weights;
  for (const auto& parameter : model.named_parameters()) {
    weights[parameter.key()] =
        parameter.value().detach().to(at::kDouble).clone().requires_grad_(true);
  }
  return weights;
}

at::Tensor reference_logits(const Weights& weights, const GptOptions& options,
                            const at::Tensor& tokens) {
  return Reference(weights, options).logits(tokens);
}

at::Tensor reference_loss(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor flat = targets.reshape({-1});
  const at::Tensor counted = at::nonzero(flat != -100).reshape({-1});
  const at::Tensor kept = logits.reshape({-1, logits.size(-1)}).index_select(0, counted);
  const at::Tensor wanted = kept.gather(1, flat.index_select(0, counted).unsqueeze(1)).squeeze(1);
  return (kept.exp().sum(-1).log() - wanted).mean();
}

}  // namespace zeroshard::test
