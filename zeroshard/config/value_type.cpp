#include "zeroshard/config/value_type.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "zeroshard/base/duration.h"
#include "zeroshard/base/error.h"

namespace zeroshard::config {
namespace {

std::optional<double> finite_number(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  });
  return text;
}

constexpr const char* kInQuotes = "a number in quotes";
constexpr const char* kTooLarge = "a whole number below 2^63";

// pydantic's lax booleans, which the typed sections of DeepSpeed accept.
std::optional<bool> boolean_word(const std::string& text) {
  const std::string word = lower(text);
  for (const char* yes : {"true", "1", "on", "yes", "t", "y"}) {
    if (word == yes) return true;
  }
  for (const char* no : {"false", "0", "off", "no", "f", "n"}) {
    if (word == no) return false;
  }
  return std::nullopt;
}

// An enumeration as a table of (spelling, value); the first spelling of a value is the one shown.
template <typename T, std::size_t N>
Parsed<T> parse_choice(const Node& node, const std::string& text,
                       const std::array<std::pair<const char*, T>, N>& choices) {
  std::string expected;
  for (const auto& [spelling, value] : choices) {
    if (node.is(Node::Kind::text) && text == spelling) return {value, {}};
    expected += expected.empty() ? "" : ", ";
    expected += fmt::format("\"{}\"", spelling);
  }
  return {std::nullopt, "one of " + expected};
}

template <typename T, std::size_t N>
std::string show_choice(T value, const std::array<std::pair<const char*, T>, N>& choices) {
  for (const auto& [spelling, choice] : choices) {
    if (choice == value) return fmt::format("\"{}\"", spelling);
  }
  return "?";
}

constexpr std::array<std::pair<const char*, Tier>, 3> kTiers{
    {{"none", Tier::device}, {"cpu", Tier::host}, {"nvme", Tier::disk}}};
constexpr std::array<std::pair<const char*, WarmupShape>, 2> kWarmupShapes{
    {{"log", WarmupShape::log}, {"linear", WarmupShape::linear}}};
constexpr std::array<std::pair<const char*, TagValidation>, 3> kTagValidations{
    {{"warn", TagValidation::warn},
     {"ignore", TagValidation::ignore},
     {"fail", TagValidation::fail}}};

}  // namespace

std::optional<std::int64_t> whole_number(const std::string& spelling) {
  std::int64_t value = 0;
  const char* end = spelling.data() + spelling.size();
  const auto [stop, error] = std::from_chars(spelling.data(), end, value);
  if (error == std::errc{} && stop == end) return value;
  // 5e8 and 500000000.0 are whole too; 2^53 is where doubles stop counting every integer, and
  // DeepSpeed accepts larger floats (1e16), so only the range of the type is checked.
  const auto number = finite_number(spelling);
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (!number || *number != std::floor(*number)) return std::nullopt;
  if (*number >= kLimit || *number < -kLimit) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

bool spells_infinity(const Node& node) {
  if (!node.is(Node::Kind::text)) return false;
  const std::string word = lower(node.text);
  return word == "inf" || word == "+inf" || word == "infinity" || word == "+infinity";
}

std::string ValueType<bool>::name() { return "boolean"; }
Parsed<bool> ValueType<bool>::parse(const Node& node, Coercion coercion) {
  if (node.is(Node::Kind::boolean)) return {node.boolean};
  const bool wordlike = node.is(Node::Kind::text) || node.is(Node::Kind::number);
  const auto word = wordlike ? boolean_word(node.text) : std::nullopt;
  const bool by_pydantic = coercion == Coercion::typed_section;
  if (word && (by_pydantic || node.is(Node::Kind::number))) return {*word};
  if (by_pydantic || !node.is(Node::Kind::text) || node.text.empty()) {
    return {std::nullopt, "true or false"};
  }
  // To Python every other text is true, "false" too, which nobody can have meant.
  if (word && !*word) return {std::nullopt, "false without quotes (to Python, text is true)"};
  return {true, {}, "text, which counts as true"};
}
std::string ValueType<bool>::show(const bool& value) { return value ? "true" : "false"; }

std::string ValueType<std::int64_t>::name() { return "integer"; }
Parsed<std::int64_t> ValueType<std::int64_t>::parse(const Node& node, Coercion coercion) {
  if (node.is(Node::Kind::number)) {
    if (const auto value = whole_number(node.text)) return {*value};
    const auto number = finite_number(node.text);
    const bool too_large = !number || *number == std::floor(*number);
    return {std::nullopt, too_large ? kTooLarge : "a whole number"};
  }
  // pydantic reads "500000000" and not "5e8".
  const bool digits = node.is(Node::Kind::text) && !node.text.empty() &&
                      node.text.find_first_not_of("0123456789") == std::string::npos;
  const auto value = digits ? whole_number(node.text) : std::nullopt;
  if (value && coercion == Coercion::typed_section) return {*value};
  if (value && coercion == Coercion::plain) return {*value, {}, kInQuotes};
  return {std::nullopt, value ? "a whole number without quotes" : "a whole number"};
}
std::string ValueType<std::int64_t>::show(const std::int64_t& value) {
  return fmt::format("{}", value);
}

std::string ValueType<int>::name() { return ValueType<std::int64_t>::name(); }
Parsed<int> ValueType<int>::parse(const Node& node, Coercion coercion) {
  const auto wide = ValueType<std::int64_t>::parse(node, coercion);
  if (!wide.value) return {std::nullopt, wide.expected};
  if (*wide.value > std::numeric_limits<int>::max() ||
      *wide.value < std::numeric_limits<int>::min()) {
    return {std::nullopt, "a whole number below 2^31"};
  }
  return {static_cast<int>(*wide.value), {}, wide.odd};
}
std::string ValueType<int>::show(const int& value) { return fmt::format("{}", value); }

std::string ValueType<double>::name() { return "number"; }
Parsed<double> ValueType<double>::parse(const Node& node, Coercion coercion) {
  const bool in_quotes = node.is(Node::Kind::text);
  if (in_quotes || node.is(Node::Kind::number)) {
    const auto value = finite_number(node.text);
    if (value && in_quotes && coercion == Coercion::parameter) {
      return {std::nullopt, "a number without quotes"};
    }
    if (value) return {*value, {}, in_quotes && coercion == Coercion::plain ? kInQuotes : ""};
  }
  if (node.is(Node::Kind::boolean) && coercion == Coercion::plain) {
    return {node.boolean ? 1.0 : 0.0, {}, node.boolean ? "read as 1" : "read as 0"};
  }
  if (node.is(Node::Kind::list)) return {std::nullopt, "one number for all parameter groups"};
  return {std::nullopt, "a number"};
}
std::string ValueType<double>::show(const double& value) { return fmt::format("{}", value); }

std::string ValueType<std::string>::name() { return "string"; }
Parsed<std::string> ValueType<std::string>::parse(const Node& node, Coercion) {
  if (node.is(Node::Kind::text)) return {node.text, {}};
  return {std::nullopt, "a string"};
}
std::string ValueType<std::string>::show(const std::string& value) { return json_string(value); }

std::string ValueType<Betas>::name() { return "two numbers"; }
Parsed<Betas> ValueType<Betas>::parse(const Node& node, Coercion coercion) {
  Betas betas{};
  bool good = node.is(Node::Kind::list) && node.items.size() == betas.size();
  for (std::size_t i = 0; good && i < betas.size(); ++i) {
    const auto number = ValueType<double>::parse(node.items[i], coercion);
    good = number.value && *number.value >= 0.0 && *number.value < 1.0;
    if (good) betas[i] = *number.value;
  }
  if (good) return {betas, {}};
  return {std::nullopt, "a list of two numbers from 0 to below 1"};
}
std::string ValueType<Betas>::show(const Betas& value) {
  return fmt::format("[{}, {}]", value[0], value[1]);
}

std::string ValueType<DType>::name() { return "dtype"; }
Parsed<DType> ValueType<DType>::parse(const Node& node, Coercion) {
  if (node.is(Node::Kind::text)) {
    if (const auto dtype = parse_float_dtype(node.text)) return {*dtype, {}};
  }
  return {std::nullopt, "\"fp32\", \"fp16\" or \"bf16\""};
}
std::string ValueType<DType>::show(const DType& value) {
  return fmt::format("\"{}\"", name_of(value));
}

std::string ValueType<Tier>::name() { return "none, cpu or nvme"; }
Parsed<Tier> ValueType<Tier>::parse(const Node& node, Coercion) {
  return parse_choice(node, node.text, kTiers);
}
std::string ValueType<Tier>::show(const Tier& value) { return show_choice(value, kTiers); }

std::string ValueType<WarmupShape>::name() { return "log or linear"; }
Parsed<WarmupShape> ValueType<WarmupShape>::parse(const Node& node, Coercion) {
  // Any other word is "log" to DeepSpeed, with a warning; so it is here (see validate.cpp).
  if (!node.is(Node::Kind::text)) return {std::nullopt, "\"log\" or \"linear\""};
  return {node.text == "linear" ? WarmupShape::linear : WarmupShape::log, {}};
}
std::string ValueType<WarmupShape>::show(const WarmupShape& value) {
  return show_choice(value, kWarmupShapes);
}

std::string ValueType<TagValidation>::name() { return "warn, ignore or fail"; }
Parsed<TagValidation> ValueType<TagValidation>::parse(const Node& node, Coercion) {
  return parse_choice(node, lower(node.text), kTagValidations);
}
std::string ValueType<TagValidation>::show(const TagValidation& value) {
  return show_choice(value, kTagValidations);
}

std::string ValueType<Anything>::name() { return "any"; }
Parsed<Anything> ValueType<Anything>::parse(const Node& node, Coercion) {
  return {Anything{spelling(node)}, {}};
}
std::string ValueType<Anything>::show(const Anything& value) { return value.text; }

std::string ValueType<std::chrono::milliseconds>::name() { return "duration"; }
Parsed<std::chrono::milliseconds> ValueType<std::chrono::milliseconds>::parse(const Node& node,
                                                                              Coercion) {
  if (node.is(Node::Kind::text) || node.is(Node::Kind::number)) {
    try {
      return {parse_duration(node.text), {}};
    } catch (const ConfigError&) {
      // Reported by the caller, with the key and the place.
    }
  }
  return {std::nullopt, "a duration such as \"30min\" or \"5s\""};
}
std::string ValueType<std::chrono::milliseconds>::show(const std::chrono::milliseconds& value) {
  const auto count = value.count();
  if (count % 60'000 == 0) return fmt::format("\"{}min\"", count / 60'000);
  if (count % 1'000 == 0) return fmt::format("\"{}s\"", count / 1'000);
  return fmt::format("\"{}ms\"", count);
}

}  // namespace zeroshard::config
