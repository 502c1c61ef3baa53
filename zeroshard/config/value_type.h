// How each C++ type of an option is read from JSON and shown to people.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "zeroshard/base/dtype.h"
#include "zeroshard/checkpoint/options.h"
#include "zeroshard/config/node.h"
#include "zeroshard/schedule/options.h"
#include "zeroshard/tier/options.h"

namespace zeroshard::config {

// How DeepSpeed takes the values of a place.
enum class Coercion {
  parameter,  // handed to a constructor: 0 and 1 do for booleans, a number in quotes fails
  plain,      // used as they are, where Python's rules let a number in quotes or a 1 for true pass
  typed_section,  // checked and coerced by pydantic
};

// A value, or the sentence's end that says what was expected ("a whole number").
template <typename T>
struct Parsed {
  std::optional<T> value;
  std::string expected = {};
  std::string odd = {};  // what is odd about a value that was taken all the same
};

// ValueType<T>::name() is the word in `config keys`; parse() and show() are each other's inverse.
template <typename T>
struct ValueType;

#define ZS_DECLARE_VALUE_TYPE(T)                                 \
  template <>                                                    \
  struct ValueType<T> {                                          \
    static std::string name();                                   \
    static Parsed<T> parse(const Node& node, Coercion coercion); \
    static std::string show(const T& value);                     \
  };

using Betas = std::array<double, 2>;

// A value nobody looks into, such as a list of class names for a feature that is absent here.
struct Anything {
  std::string text;
};

ZS_DECLARE_VALUE_TYPE(bool)
ZS_DECLARE_VALUE_TYPE(int)
ZS_DECLARE_VALUE_TYPE(std::int64_t)
ZS_DECLARE_VALUE_TYPE(double)
ZS_DECLARE_VALUE_TYPE(std::string)
ZS_DECLARE_VALUE_TYPE(Betas)
ZS_DECLARE_VALUE_TYPE(DType)
ZS_DECLARE_VALUE_TYPE(Tier)
ZS_DECLARE_VALUE_TYPE(WarmupShape)
ZS_DECLARE_VALUE_TYPE(TagValidation)
ZS_DECLARE_VALUE_TYPE(std::chrono::milliseconds)
ZS_DECLARE_VALUE_TYPE(Anything)

#undef ZS_DECLARE_VALUE_TYPE

// An unset option shows as null; null in a file never reaches parse().
template <typename T>
struct ValueType<std::optional<T>> {
  static std::string name() { return ValueType<T>::name(); }
  static Parsed<std::optional<T>> parse(const Node& node, Coercion coercion) {
    auto parsed = ValueType<T>::parse(node, coercion);
    if (!parsed.value) return {std::nullopt, parsed.expected};
    return {std::optional<T>(std::move(parsed.value)), {}, parsed.odd};
  }
  static std::string show(const std::optional<T>& value) {
    return value ? ValueType<T>::show(*value) : "null";
  }
};

// "inf", "Infinity" and the like; minus infinity is none of these.
bool spells_infinity(const Node& node);

// The number a JSON number or numeric string spells, if it is a whole one that fits.
std::optional<std::int64_t> whole_number(const std::string& spelling);

}  // namespace zeroshard::config
