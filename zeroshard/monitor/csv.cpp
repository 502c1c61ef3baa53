#include "zeroshard/monitor/csv.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "zeroshard/base/file_error.h"

namespace zeroshard {
namespace {

std::string_view last_component(std::string_view tag) {
  const auto slash = tag.rfind('/');
  return slash == tag.npos ? tag : tag.substr(slash + 1);
}

// In quotes only where a comma, quote or line end would break the row (RFC 4180).
std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

std::string csv_file_name(std::string_view tag) {
  std::string name(tag);
  for (char& c : name) {
    if (c == '/' || c == ' ') c = '_';
  }
  return name + ".csv";
}

CsvWriter::CsvWriter(std::string folder) : folder_(std::move(folder)) {
  if (folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) throw file_error("cannot make the folder", folder_, error.value());
}

FileWriter& CsvWriter::file_of(std::string_view tag) {
  const std::string name = csv_file_name(tag);
  auto found = series_.find(name);
  if (found == series_.end()) {
    FileWriter file((folder_.empty() ? "" : folder_ + "/") + name,
                    {.append = true, .whole_lines = true});
    if (file.was_empty()) file.append(fmt::format("step,{}\n", csv_field(last_component(tag))));
    found = series_.emplace(name, Series{std::string(tag), std::move(file)}).first;
  }
  if (found->second.tag != tag) {
    throw StateError({.what = "two series would share one CSV file",
                      .value = fmt::format("'{}' and '{}' in {}", found->second.tag, tag, name),
                      .remedy = "rename one of them"});
  }
  return found->second.file;
}

void CsvWriter::write(std::int64_t step, std::span<const Scalar> scalars) {
  for (const Scalar& scalar : scalars) {
    FileWriter& file = file_of(scalar.tag);
    // The shortest digits that read back as the same number; NaN and infinity as nan and inf.
    file.append(fmt::format("{},{}\n", step, scalar.value));
    file.flush();
  }
}

}  // namespace zeroshard
