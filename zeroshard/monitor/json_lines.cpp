#include "zeroshard/monitor/json_lines.h"

#include "zeroshard/monitor/json_text.h"

namespace zeroshard {

void JsonObject::add_key(std::string_view key) {
  if (!members_.empty()) members_ += ',';
  append_json_string(members_, key);
  members_ += ':';
}

JsonObject& JsonObject::add(std::string_view key, std::string_view value) {
  add_key(key);
  append_json_string(members_, value);
  return *this;
}

JsonObject& JsonObject::add(std::string_view key, const std::vector<std::string>& values) {
  add_key(key);
  members_ += '[';
  for (const std::string& value : values) {
    if (members_.back() != '[') members_ += ',';
    append_json_string(members_, value);
  }
  members_ += ']';
  return *this;
}

JsonObject& JsonObject::add_double(std::string_view key, double value) {
  add_key(key);
  append_json_number(members_, value);
  return *this;
}

JsonObject& JsonObject::add_text(std::string_view key, std::string_view json) {
  add_key(key);
  members_ += json;
  return *this;
}

JsonLines::JsonLines(const std::string& path)
    : file_(path, {.append = true, .make_folders = true, .whole_lines = true}) {}

void JsonLines::write(const JsonObject& record) {
  file_.append(record.text() + "\n");
  file_.flush();
}

}  // namespace zeroshard
