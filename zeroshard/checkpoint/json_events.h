// Strict JSON as a stream of events: no tree is built, so a hostile file costs no memory and its
// nesting no stack.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zeroshard {

// What is told while reading. A callee that meets something it does not want throws.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void open_object() = 0;
  virtual void close_object() = 0;
  virtual void open_list() = 0;
  virtual void close_list() = 0;
  virtual void key(std::string_view text) = 0;
  virtual void text(std::string_view text) = 0;
  virtual void number(std::string_view digits) = 0;  // as written
  virtual void literal() = 0;                        // true, false, null
};

// Nothing where all of `json` was one well-formed value; else what is wrong and at which byte.
std::optional<std::string> read_json_events(std::string_view json, JsonEvents& events);

// A whole number from 0 to 2^64 - 1 in plain digits; nothing for signs, fractions, exponents and
// what does not fit.
std::optional<std::uint64_t> parse_whole_number(std::string_view digits);

// Whether it has half of a surrogate pair, which an escape such as \udd00 may bring: RapidJSON lets
// it pass, and nobody reads it again.
bool has_lone_surrogate(std::string_view text);

// In quotes and escaped, as JSON wants it.
std::string json_quoted(std::string_view text);

// The same for messages: cut to a readable length.
std::string json_quoted_short(std::string_view text);

}  // namespace zeroshard
