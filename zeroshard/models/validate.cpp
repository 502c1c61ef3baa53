#include "zeroshard/models/validate.h"

#include <cmath>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kMaxLayers = 10'000;
constexpr std::int64_t kMaxWidth = std::int64_t{1} << 20U;
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 24U;

struct Range {
  std::int64_t low;
  std::int64_t high;
};

void check_range(std::string_view name, std::int64_t value, const Range& range) {
  if (value >= range.low && value <= range.high) return;
  throw ConfigError({.what = fmt::format("the model's {} is out of range", name),
                     .value = fmt::format("{}", value),
                     .remedy = fmt::format("give {} to {}", range.low, range.high)});
}

struct Named {
  std::string_view name;
  std::int64_t value;
};

void check_divides(const Named& whole, const Named& part) {
  if (whole.value % part.value == 0) return;
  throw ConfigError(
      {.what = fmt::format("the model's {} is no multiple of its {}", whole.name, part.name),
       .value = fmt::format("{} and {}", whole.value, part.value),
       .remedy = fmt::format("choose {} that {} divides", whole.name, part.name)});
}

}  // namespace

void validate(const GptOptions& options) {
  check_range("layers", options.layers, {1, kMaxLayers});
  check_range("hidden", options.hidden, {1, kMaxWidth});
  check_range("heads", options.heads, {1, options.hidden});
  check_range("kv_heads", options.kv_heads, {0, options.heads});
  check_range("sequence", options.sequence, {1, kMaxTokens});
  check_range("vocabulary", options.vocabulary, {1, kMaxTokens});
  check_range("mlp_width", options.mlp_width, {0, 4 * kMaxWidth});
  check_divides({"hidden", options.hidden}, {"heads", options.heads});
  check_divides({"heads", options.heads}, {"kv_heads", options.effective_kv_heads()});
  if (!std::isfinite(options.rope_theta) || options.rope_theta <= 0) {
    throw ConfigError({.what = "the model's rope_theta is not a positive number",
                       .value = fmt::format("{}", options.rope_theta),
                       .remedy = "10000 is usual"});
  }
  if (options.positions == Positions::rotary && options.head_width() % 2 != 0) {
    throw ConfigError(
        {.what = "rotary positions need an even head width, hidden / heads",
         .value = fmt::format("{} / {} = {}", options.hidden, options.heads, options.head_width()),
         .remedy = "change hidden or heads, or take learned positions"});
  }
}

void validate(const DenseOptions& options) {
  check_range("inputs", options.inputs, {1, kMaxWidth});
  check_range("outputs", options.outputs, {1, kMaxWidth});
  check_range("number of hidden layers", static_cast<std::int64_t>(options.hidden.size()),
              {0, kMaxLayers});
  for (const std::int64_t width : options.hidden) check_range("hidden", width, {1, kMaxWidth});
}

void validate(const ModelOptions& options) {
  std::visit([](const auto& one) { validate(one); }, options);
}

}  // namespace zeroshard
