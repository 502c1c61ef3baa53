#include "zeroshard/models/hf_model.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"
#include "zeroshard/models/hf_layout.h"
#include "zeroshard/models/rehearse_unit.h"

namespace zeroshard {
namespace {

constexpr int kFp32 = 4;
constexpr std::int64_t kMostLayersOfDecoders = 2'000;  // that are looked at

// With one block, which all others are like.
HfUnits shortest_units(TransformerShape shape, const HfModelOptions& options, DType dtype) {
  shape.layers = 1;
  return hf_units(shape, options, dtype);
}

// The operators of one block, and of what stands before and behind all blocks.
class HfRehearsal {
 public:
  HfRehearsal(const TransformerShape& shape, const HfModelOptions& options,
              const ActivationQuery& query)
      : shape_(shape),
        options_(options),
        query_(query),
        length_(query.sequence > 0 ? query.sequence : options.sequence),
        rows_(countable_rows(query.micro_batch, length_, widest(shape))) {}

  ModelActivations run() const {
    HfUnits units = shortest_units(shape_, options_, DType::bf16);
    if (units.head > units.first_block) units.head += static_cast<std::size_t>(shape_.layers - 1);
    const bool trains = options_.lora_rank == 0;
    // Inputs, targets, and a mask.
    ModelActivations all{.batch = 3 * rows_ * kInt64};
    const auto append = [&](std::size_t unit, UnitActivations use) {
      use.unit = unit;
      all.uses.push_back(use);
    };
    append(units.tokens, rehearse(embedding(), query_, trains));
    // In a model with frozen tables gradients begin at the first adapters, unless blocks are
    // computed again: then they begin at the first block's input.
    UnitRehearsal block = this->block();
    block.input_needs_gradient = trains || options_.checkpoint_activations;
    append(units.first_block, rehearse(block, query_, trains));
    block.input_needs_gradient = true;
    const UnitActivations others = rehearse(block, query_, trains);
    for (std::int64_t i = 1; i < shape_.layers; ++i) {
      append(units.first_block + static_cast<std::size_t>(i), others);
    }
    UnitActivations head = rehearse(this->head(), query_, trains);
    head.logits = std::min(head.forward, rows_ * shape_.vocabulary * kFp32);
    append(units.head, head);
    return all;
  }

 private:
  static std::int64_t widest(const TransformerShape& shape) {
    return std::max({shape.vocabulary, 2 * shape.mlp_width, shape.q_width() + 2 * shape.kv_width(),
                     shape.hidden});
  }

  UnitRehearsal embedding() const {
    return {.forward = [this](const SizeOps& ops, const SizeTensor& /*none*/) {
      SizeTensor x = ops.embedding(rows_, shape_.hidden, shape_.vocabulary);
      if (shape_.position_rows > 0) {
        x = ops.add_positions(x, {.batch = query_.micro_batch,
                                  .length = length_,
                                  .table_rows = shape_.position_rows,
                                  .width = shape_.hidden});
      }
      return shape_.dropout ? ops.dropout(x) : x;
    }};
  }

  UnitRehearsal block() const {
    return {.input_numel = rows_ * shape_.hidden,
            .forward =
                [this](const SizeOps& ops, SizeTensor x) {
                  return shape_.norms_of_block == 1 ? side_by_side(ops, std::move(x))
                                                    : in_turn(ops, std::move(x));
                },
            .checkpointed = options_.checkpoint_activations};
  }

  UnitRehearsal head() const {
    return {.input_numel = rows_ * shape_.hidden,
            .forward =
                [this](const SizeOps& ops, SizeTensor x) {
                  x = norm(ops, x, shape_.hidden);
                  SizeTensor logits =
                      ops.linear(x, {shape_.hidden, shape_.vocabulary, shape_.head_bias});
                  return ops.cross_entropy(ops.to(logits, kFp32));
                },
            .left = shape_.tied && options_.lora_rank == 0
                        ? shape_.vocabulary * shape_.hidden * query_.width
                        : 0};
  }

  SizeTensor norm(const SizeOps& ops, const SizeTensor& x, std::int64_t width) const {
    if (shape_.norm == TransformerShape::Norm::layer) return ops.layer_norm(x, width);
    const SizeTensor wide = ops.to(x, kFp32);
    SizeTensor normal = ops.mul(wide, ops.root_mean_square(wide, x.numel / width));
    if (shape_.norm == TransformerShape::Norm::wide_rms) {
      return ops.to(ops.times_parameter(normal, width), x.width);
    }
    normal = ops.to(normal, x.width);
    return ops.times_parameter(normal, width);
  }

  // Residual sums behind attention and behind the MLP.
  SizeTensor in_turn(const SizeOps& ops, SizeTensor x) const {
    const bool behind = shape_.norms_of_block == 4;
    SizeTensor part = attention(ops, norm(ops, x, shape_.hidden));
    if (behind) part = norm(ops, part, shape_.hidden);
    x = ops.add(x, dropped(ops, part));
    part = mlp(ops, norm(ops, x, shape_.hidden));
    if (behind) part = norm(ops, part, shape_.hidden);
    return ops.add(x, dropped(ops, part));
  }

  SizeTensor side_by_side(const SizeOps& ops, SizeTensor x) const {
    const SizeTensor normal = norm(ops, x, shape_.hidden);
    const SizeTensor mixed = attention(ops, normal);
    return ops.add(ops.add(mixed, mlp(ops, normal)), x);
  }

  SizeTensor dropped(const SizeOps& ops, const SizeTensor& x) const {
    return shape_.dropout ? ops.dropout(x) : x;
  }

  // A frozen matrix, and two small ones beside it.
  SizeTensor adapted(const SizeOps& ops, const SizeTensor& x, const SizeOps::Matrix& matrix) const {
    const SizeTensor y = ops.linear(x, matrix);
    if (options_.lora_rank == 0) return y;
    SizeTensor low =
        ops.linear(x, {.inputs = matrix.inputs, .outputs = options_.lora_rank, .trains = true});
    low =
        ops.linear(low, {.inputs = options_.lora_rank, .outputs = matrix.outputs, .trains = true});
    low = ops.keeping_nothing(low);
    return ops.add(y, low);
  }

  // x * cos + rotate_half(x) * sin
  SizeTensor rotated(const SizeOps& ops, const SizeTensor& x) const {
    const SizeTensor scaled = ops.keeping_nothing(x);
    SizeTensor half = ops.keeping_nothing(ops.narrow(x, x.numel / 2));
    SizeTensor turned = ops.cat({half, ops.narrow(x, x.numel / 2)});
    half.memory = nullptr;
    turned = ops.keeping_nothing(turned);
    return ops.add(scaled, turned);
  }

  SizeTensor attention(const SizeOps& ops, const SizeTensor& x) const {
    const std::int64_t q = rows_ * shape_.q_width(), kv = rows_ * shape_.kv_width();
    std::vector<SizeTensor> parts;
    if (shape_.joined) {
      const SizeTensor all = adapted(
          ops, x, {shape_.hidden, shape_.q_width() + 2 * shape_.kv_width(), shape_.qkv_bias});
      parts = ops.split(all, {q, kv, kv});
    } else {
      parts.push_back(adapted(ops, x, {shape_.hidden, shape_.q_width(), shape_.qkv_bias}));
      parts.push_back(ops.linear(x, {shape_.hidden, shape_.kv_width(), shape_.qkv_bias}));
      parts.push_back(adapted(ops, x, {shape_.hidden, shape_.kv_width(), shape_.qkv_bias}));
    }
    for (std::size_t i = 0; i < 2; ++i) {
      if (shape_.head_norms) parts[i] = norm(ops, parts[i], shape_.head_width);
      if (shape_.position_rows == 0) parts[i] = rotated(ops, parts[i]);
    }
    const SizeTensor mixed = ops.attention(parts[0], parts[1], parts[2],
                                           {.batch = query_.micro_batch,
                                            .length = length_,
                                            .heads = shape_.heads,
                                            .kv_heads = shape_.kv_heads,
                                            .width = shape_.head_width});
    parts.clear();
    return ops.linear(mixed, {shape_.q_width(), shape_.hidden, shape_.out_bias});
  }

  SizeTensor mlp(const SizeOps& ops, const SizeTensor& x) const {
    const std::int64_t wide = shape_.mlp_width;
    const SizeOps::Matrix up{shape_.hidden, wide, shape_.mlp_bias};
    const SizeOps::Matrix down{wide, shape_.hidden, shape_.mlp_bias};
    if (!shape_.gated()) return ops.linear(gelu(ops, ops.linear(x, up)), down);
    if (!shape_.joined) {
      const SizeTensor gate = ops.keeping_input(ops.linear(x, up));
      return ops.linear(ops.mul(gate, ops.linear(x, up)), down);
    }
    const SizeTensor both = ops.linear(x, {shape_.hidden, 2 * wide, shape_.mlp_bias});
    const std::vector<SizeTensor> halves = ops.split(both, {rows_ * wide, rows_ * wide});
    return ops.linear(ops.mul(halves[1], ops.keeping_input(halves[0])), down);
  }

  // 0.5 x (1 + tanh(c (x + 0.044715 x^3))), operator by operator.
  static SizeTensor gelu(const SizeOps& ops, const SizeTensor& x) {
    SizeTensor inner = ops.keeping_nothing(ops.keeping_input(x));
    inner = ops.keeping_nothing(ops.add(x, inner));
    inner = ops.keeping_nothing(ops.keeping_output(inner));
    return ops.mul(ops.keeping_nothing(x), inner);
  }

  const TransformerShape& shape_;
  const HfModelOptions& options_;
  const ActivationQuery& query_;
  const std::int64_t length_, rows_;
};

class HfModel final : public PlannedModel {
 public:
  HfModel(const TransformerShape& shape, const HfModelOptions& options)
      : shape_(shape), options_(options) {
    if (options_.sequence == 0) options_.sequence = shape.sequence;
    if (shape.position_rows > 0 && options_.sequence > shape.position_rows) {
      throw ConfigError(
          {.what = "the model has positions for fewer tokens",
           .value = fmt::format("{} tokens, {} positions", options_.sequence, shape.position_rows),
           .remedy = "make --seq smaller"});
    }
    const LayoutTotals totals = layout(DType::bf16, 1).totals();
    trainable_ = totals.trainable_numel;
    frozen_ = totals.numel - trainable_;
    check_countable(totals.numel);
  }

  std::string description() const override {
    const std::string kv = shape_.kv_heads == shape_.heads
                               ? ""
                               : fmt::format(" ({} for keys and values)", shape_.kv_heads);
    const std::string trains =
        frozen_ == 0 ? "" : fmt::format(", {} of them train", human_count(trainable_));
    return fmt::format(
        "{}, {} parameters{}: {} layers, hidden {}, {} heads{}, MLP {}, vocabulary {}{}{}",
        shape_.type, human_count(parameters()), trains, shape_.layers, shape_.hidden, shape_.heads,
        kv, shape_.mlp_width, shape_.vocabulary, shape_.tied ? ", tied head" : "",
        options_.checkpoint_activations ? ", checkpointed" : "");
  }
  std::int64_t parameters() const override { return trainable_ + frozen_; }

  ModelLayout layout(DType dtype, int ranks) const final {
    HfUnits shortest = shortest_units(shape_, options_, dtype);
    std::vector<UnitLayout> units;
    for (UnitShapes& unit : shortest.units) {
      units.emplace_back(unit.name, std::move(unit.parameters), ranks);
    }
    return with_blocks(ModelLayout(std::move(units), 0),
                       {.first = shortest.first_block, .count = shape_.layers});
  }

  std::optional<ModelActivations> activations(const ActivationQuery& query) const override {
    return HfRehearsal(shape_, options_, query).run();
  }

  std::vector<std::string> assumptions() const override { return shape_.notes; }
  std::int64_t sequence() const override { return options_.sequence; }
  std::int64_t size() const override { return shape_.layers; }
  std::int64_t largest_size() const override { return std::max(kMostLayersOfDecoders, size()); }
  std::unique_ptr<PlannedModel> of_size(std::int64_t size) const override {
    TransformerShape other = shape_;
    other.layers = size;
    return hf_model(other, options_);
  }

 private:
  const TransformerShape shape_;
  HfModelOptions options_;
  std::int64_t trainable_ = 0, frozen_ = 0;
};

}  // namespace

std::unique_ptr<PlannedModel> hf_model(const TransformerShape& shape,
                                       const HfModelOptions& options) {
  return std::make_unique<HfModel>(shape, options);
}

}  // namespace zeroshard
