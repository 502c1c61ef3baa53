// A thin face on RapidJSON's writer, for the verbs' --json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

namespace zeroshard::cli {

class JsonWriter {
 public:
  JsonWriter() { writer_.SetIndent(' ', 2); }

  void open_object() { writer_.StartObject(); }
  void open_object(std::string_view name) { key(name), writer_.StartObject(); }
  void close_object() { writer_.EndObject(); }
  void open_list() { writer_.StartArray(); }
  void open_list(std::string_view name) { key(name), writer_.StartArray(); }
  void close_list() { writer_.EndArray(); }

  void field(std::string_view name, std::string_view value) { key(name), string(value); }
  void field(std::string_view name, const char* value) { field(name, std::string_view(value)); }
  void field(std::string_view name, std::int64_t value) { key(name), writer_.Int64(value); }
  void field(std::string_view name, int value) { field(name, std::int64_t{value}); }
  void field(std::string_view name, double value) { key(name), writer_.Double(value); }
  void field(std::string_view name, bool value) { key(name), writer_.Bool(value); }
  void list(std::string_view name, const std::vector<std::string>& items) {
    open_list(name);
    for (const std::string& item : items) string(item);
    close_list();
  }

  std::string text() const { return std::string(buffer_.GetString()) + "\n"; }

 private:
  void key(std::string_view name) {
    writer_.Key(name.data(), static_cast<rapidjson::SizeType>(name.size()));
  }
  void string(std::string_view value) {
    writer_.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
  }

  rapidjson::StringBuffer buffer_;
  rapidjson::PrettyWriter<rapidjson::StringBuffer> writer_{buffer_};
};

}  // namespace zeroshard::cli
