#include "zeroshard/models/hf_layout.h"

#include <utility>

#include <fmt/format.h>

namespace zeroshard {
namespace {

// From so many elements on, a module that is no block is a unit (python/zeroshard/units.py).
constexpr std::int64_t kLeastNumel = 100'000;

class LayoutLister {
 public:
  LayoutLister(const TransformerShape& shape, const HfModelOptions& options, DType dtype)
      : shape_(shape), options_(options), dtype_(dtype) {
    all_.units.push_back({.name = "root"});
  }

  HfUnits list() {
    list_tables();
    all_.first_block = all_.units.size();
    for (std::int64_t i = 0; i < shape_.layers; ++i) list_block(i);
    add_to(0, "norm.weight", {shape_.hidden});
    if (shape_.norm_bias()) add_to(0, "norm.bias", {shape_.hidden});
    list_head();
    return std::move(all_);
  }

 private:
  void add_to(std::size_t unit, std::string name, std::vector<std::int64_t> dims,
              bool trainable = false) {
    all_.units[unit].parameters.push_back({.name = std::move(name),
                                           .dims = std::move(dims),
                                           .dtype = dtype_,
                                           .trainable = trainable || options_.lora_rank == 0});
  }
  void add(std::string name, std::vector<std::int64_t> dims, bool trainable = false) {
    add_to(all_.units.size() - 1, std::move(name), std::move(dims), trainable);
  }
  void add_linear(const std::string& name, std::int64_t inputs, std::int64_t outputs, bool bias) {
    add(name + ".weight", {outputs, inputs});
    if (bias) add(name + ".bias", {outputs});
  }
  void add_adapted(const std::string& name, std::int64_t inputs, std::int64_t outputs, bool bias) {
    add_linear(name, inputs, outputs, bias);
    if (options_.lora_rank == 0) return;
    add(name + ".lora_A.weight", {options_.lora_rank, inputs}, true);
    add(name + ".lora_B.weight", {outputs, options_.lora_rank}, true);
  }

  // A unit of its own where it is large enough, else a part of the root.
  std::size_t list_table(const std::string& name, std::int64_t rows, bool shared) {
    const bool own = !shared && rows * shape_.hidden >= kLeastNumel;
    if (own) all_.units.push_back({.name = name});
    const std::size_t unit = own ? all_.units.size() - 1 : 0;
    add_to(unit, name + ".weight", {rows, shape_.hidden});
    return unit;
  }

  void list_tables() {
    all_.tokens = list_table("embed_tokens", shape_.vocabulary, shape_.tied);
    if (shape_.position_rows > 0) list_table("positions", shape_.position_rows, false);
  }

  void list_norms(const std::string& block) {
    for (int i = 0; i < shape_.norms_of_block; ++i) {
      add(fmt::format("{}.norm{}.weight", block, i), {shape_.hidden});
      if (shape_.norm_bias()) add(fmt::format("{}.norm{}.bias", block, i), {shape_.hidden});
    }
    if (!shape_.head_norms) return;
    add(block + ".q_norm.weight", {shape_.head_width});
    add(block + ".k_norm.weight", {shape_.head_width});
  }

  void list_block(std::int64_t index) {
    const std::string block = fmt::format("layers.{}", index);
    const std::int64_t hidden = shape_.hidden, q = shape_.q_width(), kv = shape_.kv_width();
    all_.units.push_back({.name = block});
    list_norms(block);
    if (shape_.joined) {
      add_adapted(block + ".qkv_proj", hidden, q + 2 * kv, shape_.qkv_bias);
    } else {
      add_adapted(block + ".q_proj", hidden, q, shape_.qkv_bias);
      add_linear(block + ".k_proj", hidden, kv, shape_.qkv_bias);
      add_adapted(block + ".v_proj", hidden, kv, shape_.qkv_bias);
    }
    add_linear(block + ".o_proj", q, hidden, shape_.out_bias);
    const bool two = shape_.gated() && !shape_.joined;
    const std::int64_t wide =
        shape_.gated() && shape_.joined ? 2 * shape_.mlp_width : shape_.mlp_width;
    if (two) add_linear(block + ".gate_proj", hidden, wide, shape_.mlp_bias);
    add_linear(block + ".up_proj", hidden, wide, shape_.mlp_bias);
    add_linear(block + ".down_proj", shape_.mlp_width, hidden, shape_.mlp_bias);
  }

  void list_head() {
    if (shape_.tied) return;
    const std::size_t unit = list_table("lm_head", shape_.vocabulary, false);
    if (shape_.head_bias) add_to(unit, "lm_head.bias", {shape_.vocabulary});
    all_.head = unit;
  }

  const TransformerShape& shape_;
  const HfModelOptions& options_;
  const DType dtype_;
  HfUnits all_;
};

}  // namespace

HfUnits hf_units(const TransformerShape& shape, const HfModelOptions& options, DType dtype) {
  return LayoutLister(shape, options, dtype).list();
}

}  // namespace zeroshard
