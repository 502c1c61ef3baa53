#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/models/shapes.h"
#include "zeroshard/models/spec.h"

namespace zeroshard {
namespace {

std::string parts_of(const GptOptions& gpt) {
  std::string heads = fmt::format("{} heads", gpt.heads);
  if (gpt.effective_kv_heads() != gpt.heads) heads += fmt::format(" ({} kv)", gpt.kv_heads);
  return fmt::format("{} layers, hidden {}, {}, sequence {}, vocabulary {}, {}, {}, {}{}{}",
                     gpt.layers, gpt.hidden, heads, gpt.sequence, gpt.vocabulary,
                     gpt.positions == Positions::learned ? "learned positions" : "rotary positions",
                     gpt.norm == NormKind::layer ? "layer norm" : "rms norm",
                     gpt.activation == Activation::gelu ? "gelu" : "swiglu",
                     gpt.tied_head ? ", tied head" : "",
                     gpt.checkpoint_activations ? ", checkpointed" : "");
}

std::string parts_of(const DenseOptions& dense) {
  std::vector<std::int64_t> widths{dense.inputs};
  widths.insert(widths.end(), dense.hidden.begin(), dense.hidden.end());
  widths.push_back(dense.outputs);
  return fmt::format("widths {}", fmt::join(widths, ", "));
}

}  // namespace

std::string short_description(const ModelOptions& options) {
  return fmt::format("{}, {} parameters: {}",
                     std::holds_alternative<GptOptions>(options) ? "gpt" : "dense",
                     human_count(parameter_count(options)),
                     std::visit([](const auto& one) { return parts_of(one); }, options));
}

}  // namespace zeroshard
