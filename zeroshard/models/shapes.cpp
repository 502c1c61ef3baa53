#include "zeroshard/models/shapes.h"

#include <utility>
#include <variant>

#include "zeroshard/layout/checked.h"
#include "zeroshard/models/validate.h"

namespace zeroshard {
namespace {

// Builds the list as the modules register themselves.
class Lister {
 public:
  explicit Lister(DType dtype) : dtype_(dtype) { units_.push_back({.name = "root"}); }

  void start_unit(std::string name) { units_.push_back({.name = std::move(name)}); }

  void parameter(std::string name, std::vector<std::int64_t> dims) {
    units_.back().parameters.push_back(
        {.name = std::move(name), .dims = std::move(dims), .dtype = dtype_});
  }

  struct Linear {
    std::int64_t inputs;
    std::int64_t outputs;
    bool bias;
  };
  void linear(const std::string& name, const Linear& shape) {
    parameter(name + ".weight", {shape.outputs, shape.inputs});
    if (shape.bias) parameter(name + ".bias", {shape.outputs});
  }

  std::vector<UnitShapes> take() { return std::move(units_); }

 private:
  const DType dtype_;
  std::vector<UnitShapes> units_;
};

void list_norm(Lister& list, const std::string& name, const GptOptions& options) {
  list.parameter(name + ".weight", {options.hidden});
  if (options.norm == NormKind::layer) list.parameter(name + ".bias", {options.hidden});
}

void list_block(Lister& list, const std::string& name, const GptOptions& options) {
  const bool bias = options.has_biases();
  const std::int64_t wide = options.effective_mlp_width();
  list.start_unit(name);
  list_norm(list, name + ".attention_norm", options);
  list.linear(name + ".attention.qkv", {options.hidden, options.qkv_width(), bias});
  list.linear(name + ".attention.out", {options.hidden, options.hidden, bias});
  list_norm(list, name + ".mlp_norm", options);
  if (options.activation == Activation::swiglu) {
    list.linear(name + ".mlp.gate", {options.hidden, wide, bias});
  }
  list.linear(name + ".mlp.up", {options.hidden, wide, bias});
  list.linear(name + ".mlp.down", {wide, options.hidden, bias});
}

void list_units(Lister& list, const GptOptions& options) {
  // A tied table is used by embedding and head, so it lies in the root.
  if (!options.tied_head) list.start_unit("embedding");
  list.parameter("embedding.tokens", {options.vocabulary, options.hidden});
  if (options.positions == Positions::learned) {
    list.parameter("embedding.positions", {options.sequence, options.hidden});
  }
  for (std::int64_t i = 0; i < options.layers; ++i) {
    list_block(list, "blocks." + std::to_string(i), options);
  }
  list.start_unit("head");
  list_norm(list, "head.norm", options);
  if (!options.tied_head) list.linear("head.out", {options.hidden, options.vocabulary, false});
}

void list_units(Lister& list, const DenseOptions& options) {
  std::int64_t width = options.inputs;
  for (std::size_t i = 0; i <= options.hidden.size(); ++i) {
    const std::int64_t next = i < options.hidden.size() ? options.hidden[i] : options.outputs;
    const std::string name = "layers." + std::to_string(i);
    list.start_unit(name);
    list.parameter(name + ".weight", {next, width});
    list.parameter(name + ".bias", {next});
    width = next;
  }
}

}  // namespace

std::vector<UnitShapes> unit_shapes(const ModelOptions& options, DType dtype) {
  validate(options);
  Lister list(dtype);
  std::visit([&](const auto& one) { list_units(list, one); }, options);
  return list.take();
}

std::int64_t parameter_count(const ModelOptions& options) {
  validate(options);
  ModelOptions shortest = options;
  auto* const gpt = std::get_if<GptOptions>(&shortest);
  const std::int64_t blocks = gpt == nullptr ? 1 : std::exchange(gpt->layers, 1);
  std::int64_t count = 0;
  for (const UnitShapes& unit : unit_shapes(shortest)) {
    const bool is_block = gpt != nullptr && unit.name == "blocks.0";
    for (const ParameterShape& parameter : unit.parameters) {
      count = checked_add(count, checked_mul(parameter.numel(), is_block ? blocks : 1));
    }
  }
  return count;
}

ModelLayout layout_of(const ModelOptions& options, DType dtype, int ranks) {
  const std::vector<UnitShapes> shapes = unit_shapes(options, dtype);
  std::vector<UnitLayout> units;
  for (const UnitShapes& unit : shapes) {
    if (!unit.parameters.empty()) units.emplace_back(unit.name, unit.parameters, ranks);
  }
  const bool has_root = !shapes.front().parameters.empty();
  return ModelLayout(std::move(units), has_root ? std::optional<std::size_t>(0) : std::nullopt);
}

ModelLayout with_blocks(const ModelLayout& shortest, const EqualBlocks& blocks) {
  std::vector<UnitLayout> units;
  units.reserve(shortest.units().size() + static_cast<std::size_t>(blocks.count));
  for (std::size_t i = 0; i < shortest.units().size(); ++i) {
    const UnitLayout& unit = shortest.units()[i];
    units.push_back(unit);
    if (i != blocks.first) continue;
    const std::string name = unit.name().substr(0, unit.name().rfind('.') + 1);
    for (std::int64_t each = 1; each < blocks.count; ++each) {
      units.push_back(unit.alike(name + std::to_string(each)));
    }
  }
  return ModelLayout(std::move(units), shortest.root_unit());
}

}  // namespace zeroshard
