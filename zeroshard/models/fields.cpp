#include "zeroshard/models/fields.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace zeroshard {
namespace {

template <typename T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

// Puts a value that was read where it belongs.
template <typename T>
bool put(T& into, const std::optional<T>& value) {
  if (value) into = *value;
  return value.has_value();
}

template <typename Options>
Field<Options> whole(std::string_view name, std::string_view alias, std::int64_t Options::*member) {
  return {
      .name = name,
      .alias = alias,
      .read =
          [member](Options& options, std::string_view text) {
            return put(options.*member, number_in<std::int64_t>(text));
          },
      .to_json = [member](const Options& options) { return fmt::format("{}", options.*member); },
      .expects = "a whole number"};
}

Field<GptOptions> real(std::string_view name, std::string_view alias, double GptOptions::*member) {
  return {
      .name = name,
      .alias = alias,
      .read = [member](
                  GptOptions& options,
                  std::string_view text) { return put(options.*member, number_in<double>(text)); },
      .to_json = [member](const GptOptions& options) { return fmt::format("{}", options.*member); },
      .expects = "a number"};
}

Field<GptOptions> flag(std::string_view name, std::string_view alias, bool GptOptions::*member) {
  return {.name = name,
          .alias = alias,
          .read =
              [member](GptOptions& options, std::string_view text) {
                if (text != "true" && text != "false") return false;
                options.*member = text == "true";
                return true;
              },
          .to_json =
              [member](const GptOptions& options) {
                return std::string(options.*member ? "true" : "false");
              },
          .expects = "true or false"};
}

// Of two words the first is value 0 of the enumeration, the second value 1.
template <typename Choice>
Field<GptOptions> choice(std::string_view name, Choice GptOptions::*member,
                         std::array<std::string_view, 2> words) {
  return {.name = name,
          .alias = "",
          .read =
              [member, words](GptOptions& options, std::string_view text) {
                if (text != words[0] && text != words[1]) return false;
                options.*member = static_cast<Choice>(text == words[1]);
                return true;
              },
          .to_json =
              [member, words](const GptOptions& options) {
                return fmt::format("\"{}\"", words.at(static_cast<std::size_t>(options.*member)));
              },
          .expects = fmt::format("{} or {}", words[0], words[1])};
}

// "64x32"; nothing at all is no hidden layer.
bool read_widths(DenseOptions& options, std::string_view text) {
  std::vector<std::int64_t> widths;
  while (!text.empty()) {
    const std::size_t end = text.find('x');
    const auto width = number_in<std::int64_t>(text.substr(0, end));
    if (!width || (end != std::string_view::npos && end + 1 == text.size())) return false;
    widths.push_back(*width);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  options.hidden = std::move(widths);
  return true;
}

}  // namespace

const std::vector<Field<GptOptions>>& fields_of(const GptOptions&) {
  using O = GptOptions;
  static const std::vector<Field<O>> all{
      whole("layers", "", &O::layers),
      whole("hidden", "", &O::hidden),
      whole("heads", "", &O::heads),
      whole("kv_heads", "", &O::kv_heads),
      whole("sequence", "seq", &O::sequence),
      whole("vocabulary", "vocab", &O::vocabulary),
      choice("positions", &O::positions, {"learned", "rotary"}),
      choice("norm", &O::norm, {"layer", "rms"}),
      choice("activation", &O::activation, {"gelu", "swiglu"}),
      flag("tied_head", "tied", &O::tied_head),
      whole("mlp_width", "mlp", &O::mlp_width),
      real("rope_theta", "theta", &O::rope_theta),
      flag("checkpoint_activations", "checkpoint", &O::checkpoint_activations),
  };
  return all;
}

const std::vector<Field<DenseOptions>>& fields_of(const DenseOptions&) {
  using O = DenseOptions;
  static const std::vector<Field<O>> all{
      whole("inputs", "", &O::inputs),
      whole("outputs", "", &O::outputs),
      {.name = "hidden",
       .alias = "",
       .read = read_widths,
       .to_json =
           [](const O& options) { return fmt::format("[{}]", fmt::join(options.hidden, ", ")); },
       .expects = "widths such as 64x32"},
  };
  return all;
}

}  // namespace zeroshard
