// One row of the table of configuration keys. The reader, `config keys`, `config explain`,
// docs/config.md and the nearest-key hints all read the same rows.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zeroshard/config/config.h"
#include "zeroshard/config/node.h"
#include "zeroshard/config/problem.h"
#include "zeroshard/config/value_type.h"

namespace zeroshard::config {

// What setting a key does here.
enum class Effect {
  supported,        // what its meaning says
  detail,           // belongs to a feature whose own switch is reported
  tuning,           // tunes something ZeroShard does another way, with equal results: a note
  no_effect,        // asks for something that is not done here: a warning
  changes_results,  // a feature ZeroShard lacks, and leaving it out changes results: an error
};

// Whether asking for it is reported.
constexpr bool is_reported(Effect effect) {
  return effect != Effect::supported && effect != Effect::detail;
}

// Why a value was not taken.
struct Rejected {
  Code code;
  std::string expected;  // "a number above 0"
};

// What became of a value: taken, perhaps with something odd about it, or rejected.
struct Stored {
  std::optional<Rejected> rejected = std::nullopt;
  std::string odd = {};
};

inline Stored reject(Code code, std::string expected) {
  return {Rejected{code, std::move(expected)}};
}

struct Key {
  std::string path;  // dotted
  std::string type;
  std::string meaning;
  Effect effect = Effect::supported;
  std::string instead = {};  // what happens here; for keys that are not supported
  std::vector<std::string> only_for =
      {};                                 // types of optimizer or schedule that have this parameter
  std::vector<std::string> aliases = {};  // other spellings of the last component
  std::vector<std::string> old_spellings = {};  // likewise, deprecated
  std::string successor = {};      // sibling that replaces this key, where it is deprecated
  std::string fixed_default = {};  // shown where no option holds the default
  std::string infinity = {};       // the value that infinity stands for, where it is accepted
  bool required = false;

  // Checks the value and, where an option holds it, stores it.
  std::function<Stored(const Node&, Coercion, Config&)> store = {};
  // The option's value; empty where no option holds it.
  std::function<std::string(const Config&)> show = {};
  // Whether this value asks for nothing that ZeroShard does not do anyway.
  std::function<bool(const Node&, Coercion)> harmless = {};
  // Whether it is the default, for keys that no option holds.
  std::function<bool(const Node&, Coercion)> at_default = {};

  std::string name() const { return path.substr(path.rfind('.') + 1); }
  bool applies_to(const std::string& kind) const;
  bool is_old_spelling(std::string_view spelling) const;
  bool deprecated() const { return is_old_spelling(name()); }  // the whole key

  Key& alias(std::string name);
  Key& formerly(std::string name);
  Key& for_kinds(std::vector<std::string> kinds);
  Key& must_be_given();
  Key& infinity_is(std::string value);
};

// The bounds of a number; `above_min` leaves the minimum itself out.
struct Limits {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;

  bool allows(double value) const {
    return value <= max && (above_min ? value > min : value >= min);
  }
  bool any() const { return min == Limits{}.min && max == Limits{}.max; }
  // "an integer of at least 0"
  std::string expected(const std::string& type) const;
};

inline constexpr Limits kNotNegative{.min = 0};
inline constexpr Limits kPositive{.min = 0, .above_min = true};
inline constexpr Limits kAtLeastOne{.min = 1};
// Samples and steps: no real one is larger, and sums of a few still fit into 64 bits.
inline constexpr Limits kCount{.min = 1, .max = 2147483647};
inline constexpr Limits kCountOrZero{.min = 0, .max = 2147483647};

template <typename T>
const T* number_in(const T& value) {
  return &value;
}
template <typename T>
const T* number_in(const std::optional<T>& value) {
  return value ? &*value : nullptr;
}

// What becomes of a parsed value. A wrong type is told the range as well, where there is one.
template <typename T>
Stored judge(const Parsed<T>& parsed, const Limits& limits) {
  const std::string name = ValueType<T>::name();
  if (!parsed.value) {
    const bool type_alone = parsed.expected == "a number" || parsed.expected == "a whole number";
    const bool ranged = type_alone && !limits.any();
    return reject(Code::wrong_type, ranged ? limits.expected(name) : parsed.expected);
  }
  if constexpr (requires { limits.allows(static_cast<double>(*number_in(*parsed.value))); }) {
    const auto* number = number_in(*parsed.value);
    if (number != nullptr && !limits.allows(static_cast<double>(*number))) {
      return reject(Code::out_of_range, limits.expected(name));
    }
  }
  return {std::nullopt, parsed.odd};
}

// The option of a Config that a key is held by, as option() wants it.
#define ZS_FIELD(member) \
  [](Config & config) -> auto& { return config.member; }

// A supported key, held by the option that `field(config)` refers to.
template <typename Field>
Key option(std::string path, Field field, std::string meaning, Limits limits = {}) {
  using T = std::remove_cvref_t<decltype(field(std::declval<Config&>()))>;
  Key key{.path = std::move(path), .type = ValueType<T>::name(), .meaning = std::move(meaning)};
  key.store = [field, limits](const Node& node, Coercion coercion, Config& config) -> Stored {
    auto parsed = ValueType<T>::parse(node, coercion);
    Stored stored = judge<T>(parsed, limits);
    if (!stored.rejected) field(config) = std::move(*parsed.value);
    return stored;
  };
  // show() never writes to the source; the field accessors are written once, for both uses.
  key.show = [field](const Config& config) {
    return ValueType<T>::show(field(const_cast<Config&>(config)));
  };
  return key;
}

// What an absent key's row says beside its path and meaning.
struct Absent {
  Effect effect = Effect::no_effect;
  std::string default_value = {};
  std::string instead = {};
  Limits limits = {};
  std::vector<std::string> harmless = {};  // values, as ValueType shows them, not reported
};

// A key of DeepSpeed's that no option of ours holds: type-checked, then reported unless harmless.
template <typename T>
Key absent(std::string path, std::string meaning, Absent row) {
  Key key{.path = std::move(path), .type = ValueType<T>::name(), .meaning = std::move(meaning)};
  key.effect = row.effect;
  key.instead = std::move(row.instead);
  key.fixed_default = std::move(row.default_value);
  key.store = [limits = row.limits](const Node& node, Coercion coercion, Config&) -> Stored {
    return judge<T>(ValueType<T>::parse(node, coercion), limits);
  };
  key.at_default = [value = key.fixed_default](const Node& node, Coercion coercion) {
    const auto parsed = ValueType<T>::parse(node, coercion);
    return parsed.value && ValueType<T>::show(*parsed.value) == value;
  };
  key.harmless = [values = std::move(row.harmless)](const Node& node, Coercion coercion) {
    const auto parsed = ValueType<T>::parse(node, coercion);
    if (!parsed.value) return false;
    const std::string shown = ValueType<T>::show(*parsed.value);
    for (const std::string& value : values) {
      if (value == shown) return true;
    }
    return false;
  };
  return key;
}

}  // namespace zeroshard::config
