// A log for programs: one JSON object per line.
//
//   JsonLines log("run.jsonl");
//   log.write(JsonObject().add("step", 3).add("loss", 2.25).add("memory",
//                 JsonObject().add("device", bytes)));
//   // {"step":3,"loss":2.25,"memory":{"device":1024}}
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "zeroshard/monitor/file_writer.h"

namespace zeroshard {

// Keys keep the order in which they were added. A key added twice is there twice.
class JsonObject {
 public:
  JsonObject& add(std::string_view key, std::same_as<bool> auto value) {
    return add_text(key, value ? "true" : "false");
  }
  JsonObject& add(std::string_view key, std::signed_integral auto value) {
    return add_text(key, std::to_string(static_cast<std::int64_t>(value)));
  }
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) JsonObject& add(std::string_view key, T value) {
    return add_text(key, std::to_string(static_cast<std::uint64_t>(value)));
  }
  // NaN and infinities become null; all else reads back as the same double.
  JsonObject& add(std::string_view key, std::floating_point auto value) {
    return add_double(key, static_cast<double>(value));
  }
  JsonObject& add(std::string_view key, std::string_view value);
  JsonObject& add(std::string_view key, const char* value) {
    return add(key, std::string_view(value));
  }
  JsonObject& add(std::string_view key, const std::vector<std::string>& values);
  JsonObject& add(std::string_view key, const JsonObject& value) {
    return add_text(key, value.text());
  }

  // "{...}", on one line.
  std::string text() const { return "{" + members_ + "}"; }

 private:
  JsonObject& add_double(std::string_view key, double value);
  JsonObject& add_text(std::string_view key, std::string_view json);
  void add_key(std::string_view key);

  std::string members_;
};

// Appends to the file, after whatever it holds. Each record is in the file when write() returns, so
// a reader may follow it.
class JsonLines {
 public:
  explicit JsonLines(const std::string& path);

  void write(const JsonObject& record);

 private:
  FileWriter file_;
};

}  // namespace zeroshard
