#include "zeroshard/models/activations.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "zeroshard/models/rehearse_unit.h"

namespace zeroshard {
namespace {

// The operators of gpt.cpp, block.cpp and attention.cpp, in their order.
class GptRehearsal {
 public:
  GptRehearsal(const GptOptions& gpt, const ActivationQuery& options)
      : gpt_(gpt),
        options_(options),
        length_(options.sequence > 0 ? options.sequence : gpt.sequence),
        rows_(countable_rows(options.micro_batch, length_, widest(gpt))) {}

  ModelActivations run() const {
    ModelActivations all{.batch = 2 * rows_ * kInt64, .tables = table_bytes()};
    append(all,
           rehearse(embedding(), options_));  // a table that is tied is the root's: unit 0, too
    const UnitActivations block = rehearse(this->block(), options_);
    for (std::int64_t i = 0; i < gpt_.layers; ++i) append(all, block);
    UnitActivations head = rehearse(this->head(), options_);
    head.logits = rows_ * gpt_.vocabulary * logits_width();
    append(all, head);
    return all;
  }

 private:
  static std::int64_t widest(const GptOptions& gpt) {
    return std::max({gpt.vocabulary, gpt.effective_mlp_width(), gpt.qkv_width(), gpt.hidden});
  }

  static void append(ModelActivations& all, UnitActivations use) {
    use.unit = all.uses.size();
    all.uses.push_back(use);
  }

  // A CPU widens them (gpt.cpp).
  int logits_width() const { return options_.device.accelerator ? options_.width : 4; }

  std::int64_t table_bytes() const {
    if (gpt_.positions != Positions::rotary) return 0;
    return gpt_.sequence * gpt_.head_width() * options_.width;
  }

  UnitRehearsal embedding() const {
    return {.forward = [this](const SizeOps& ops, const SizeTensor& /*none*/) {
      const SizeTensor x = ops.embedding(rows_, gpt_.hidden, gpt_.vocabulary);
      if (gpt_.positions == Positions::rotary) return x;
      return ops.add_positions(x, {.batch = options_.micro_batch,
                                   .length = length_,
                                   .table_rows = gpt_.sequence,
                                   .width = gpt_.hidden});
    }};
  }

  UnitRehearsal block() const {
    const bool keeps = gpt_.checkpoint_activations && options_.device.accelerator;
    UnitRehearsal unit{
        .input_numel = rows_ * gpt_.hidden,
        .forward = [this](const SizeOps& ops,
                          SizeTensor x) { return block_forward(ops, std::move(x), false); },
        .checkpointed = gpt_.checkpoint_activations,
        .kept_beside = keeps ? rows_ * gpt_.hidden * options_.width : 0};
    if (keeps) {
      unit.again = [this](const SizeOps& ops, SizeTensor x) {
        return block_forward(ops, std::move(x), true);
      };
    }
    return unit;
  }

  UnitRehearsal head() const {
    return {.input_numel = rows_ * gpt_.hidden,
            .forward =
                [this](const SizeOps& ops, SizeTensor x) {
                  x = norm(ops, x);
                  SizeTensor logits = ops.linear(x, {gpt_.hidden, gpt_.vocabulary});
                  logits = ops.to(logits, logits_width());
                  return ops.consuming_cross_entropy(logits, rows_);
                },
            .left = gpt_.tied_head ? gpt_.vocabulary * gpt_.hidden * options_.width : 0};
  }

  SizeTensor norm(const SizeOps& ops, const SizeTensor& x) const {
    return gpt_.norm == NormKind::rms ? ops.rms_norm(x, gpt_.hidden)
                                      : ops.layer_norm(x, gpt_.hidden);
  }

  SizeTensor block_forward(const SizeOps& ops, SizeTensor x, bool again) const {
    const SizeOps::Matrix out{gpt_.hidden, gpt_.hidden, gpt_.has_biases()};
    const SizeOps::Matrix down{gpt_.effective_mlp_width(), gpt_.hidden, gpt_.has_biases()};
    const SizeTensor mixed = mix(ops, norm(ops, x));
    x = again ? known_sum(ops, x, ops.known_linear(mixed, out))
              : ops.add(x, ops.linear(mixed, out));
    const SizeTensor wide = widen(ops, norm(ops, x));
    return again ? known_sum(ops, x, ops.known_linear(wide, down))
                 : ops.add(x, ops.linear(wide, down));
  }

  static SizeTensor known_sum(const SizeOps& ops, const SizeTensor& x, const SizeTensor& known) {
    return ops.tape().record({.numel = x.numel, .width = x.width}, {x, known}, false,
                             [](SizeTape&, const Memory& gradient) {
                               return std::vector<Memory>{gradient, gradient};
                             });
  }

  SizeTensor mix(const SizeOps& ops, const SizeTensor& x) const {
    const std::int64_t heads = gpt_.heads, kv = gpt_.effective_kv_heads(), d = gpt_.head_width();
    const std::int64_t of_head = rows_ * d;
    const SizeTensor all = ops.linear(x, {gpt_.hidden, gpt_.qkv_width(), gpt_.has_biases()});
    std::vector<SizeTensor> parts;
    if (gpt_.positions == Positions::rotary) {
      const auto both = ops.split(all, {(heads + kv) * of_head, kv * of_head});
      parts = ops.split(ops.rotate(both[0]), {heads * of_head, kv * of_head});
      parts.push_back(both[1]);
    } else {
      parts = ops.split(all, {heads * of_head, kv * of_head, kv * of_head});
    }
    if (ops.device().widens && ops.width() < 4) {
      for (SizeTensor& part : parts) part = ops.to(part, 4);
    }
    const SizeTensor mixed = ops.attention(parts[0], parts[1], parts[2],
                                           {.batch = options_.micro_batch,
                                            .length = length_,
                                            .heads = heads,
                                            .kv_heads = kv,
                                            .width = d});
    return ops.to(mixed, ops.width());
  }

  SizeTensor widen(const SizeOps& ops, const SizeTensor& x) const {
    const SizeOps::Matrix up{gpt_.hidden, gpt_.effective_mlp_width(), gpt_.has_biases()};
    if (gpt_.activation == Activation::gelu) return ops.gelu(ops.linear(x, up));
    const SizeTensor gates = ops.linear(x, up);
    return ops.swiglu(gates, ops.linear(x, up));
  }

  const GptOptions& gpt_;
  const ActivationQuery& options_;
  const std::int64_t length_, rows_;
};

ModelActivations rehearse(const GptOptions& gpt, const ActivationQuery& options) {
  return GptRehearsal(gpt, options).run();
}

ModelActivations rehearse(const DenseOptions& dense, const ActivationQuery& options) {
  std::int64_t widest = std::max(dense.inputs, dense.outputs);
  for (const std::int64_t width : dense.hidden) widest = std::max(widest, width);
  const std::int64_t rows = countable_rows(options.micro_batch, 1, widest);
  ModelActivations all{.batch = rows * (dense.inputs + dense.outputs) * 4};
  std::int64_t width = dense.inputs;
  for (std::size_t i = 0; i <= dense.hidden.size(); ++i) {
    const bool is_last = i == dense.hidden.size();
    const std::int64_t next = is_last ? dense.outputs : dense.hidden[i];
    UnitActivations use = rehearse({.input_numel = rows * width,
                                    .forward =
                                        [&](const SizeOps& ops, const SizeTensor& x) {
                                          const SizeTensor y = ops.linear(x, {width, next, true});
                                          return is_last ? y : ops.relu(y);
                                        }},
                                   options);
    use.unit = i;
    all.uses.push_back(use);
    width = next;
  }
  return all;
}

}  // namespace

ModelActivations activations_of(const ModelOptions& model, const ActivationQuery& options) {
  return std::visit([&](const auto& one) { return rehearse(one, options); }, model);
}

}  // namespace zeroshard
