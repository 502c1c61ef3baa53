#include "cli/print_config.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/json_writer.h"
#include "cli/text_table.h"
#include "zeroshard/config/key_table.h"
#include "zeroshard/config/summary.h"

namespace zeroshard::cli {
namespace {

using config::Severity;
using Align = TextTable::Align;

std::string counted(std::size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::size_t count_verdict(const std::vector<CheckedFile>& files, const std::string& verdict) {
  return static_cast<std::size_t>(std::count_if(
      files.begin(), files.end(), [&](const auto& file) { return file.verdict() == verdict; }));
}

std::string source_text(const config::ExplainedKey& row) {
  std::string text(config::name_of(row.source));
  if (row.at.line > 0) text += fmt::format(" {}:{}", row.at.line, row.at.column);
  return text;
}

const char* effect_word(config::Effect effect) {
  switch (effect) {
    case config::Effect::supported: return "supported";
    case config::Effect::detail: return "with its feature";
    case config::Effect::tuning: return "changes nothing";
    case config::Effect::no_effect: return "no effect";
    case config::Effect::changes_results: return "not available";
  }
  return "?";
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

// Meaning, then for whom, other spellings, and what happens where the key is not supported.
std::string meaning_text(const config::Key& key) {
  std::string text = key.meaning;
  if (!key.only_for.empty()) text += fmt::format(" ({})", joined(key.only_for));
  if (!key.aliases.empty()) text += fmt::format("; also {}", joined(key.aliases));
  if (!key.instead.empty() && key.effect != config::Effect::detail) text += "; " + key.instead;
  return text;
}

}  // namespace

std::string CheckedFile::verdict() const {
  if (report.has_errors()) return "rejected";
  return report.count(Severity::warning) == 0 ? "fine" : "warnings";
}

std::string check_text(const std::vector<CheckedFile>& files, bool verbose) {
  std::string out;
  for (const CheckedFile& file : files) {
    for (const config::Problem& problem : config::summary(file.report, verbose)) {
      out += format_problem(file.path, problem) + "\n";
    }
    const std::size_t errors = file.report.count(Severity::error);
    const std::size_t warnings = file.report.count(Severity::warning);
    if (errors > 0) {
      out += fmt::format("{}: rejected, {} and {}\n", file.path, counted(errors, "error"),
                         counted(warnings, "warning"));
    } else {
      out += fmt::format("{}: fine{}\n", file.path,
                         warnings > 0 ? ", " + counted(warnings, "warning") : "");
    }
  }
  if (files.size() > 1) {
    out += fmt::format("{} files: {} fine, {} with warnings, {} rejected\n", files.size(),
                       count_verdict(files, "fine"), count_verdict(files, "warnings"),
                       count_verdict(files, "rejected"));
  }
  return out;
}

std::string check_json(const std::vector<CheckedFile>& files, bool verbose) {
  JsonWriter json;
  json.open_object();
  json.open_list("files");
  for (const CheckedFile& file : files) {
    json.open_object();
    json.field("file", file.path);
    json.field("verdict", file.verdict());
    json.open_list("problems");
    for (const config::Problem& problem : file.report.problems()) {
      if (problem.severity == Severity::note && !verbose) continue;
      json.open_object();
      json.field("severity", config::name_of(problem.severity));
      json.field("code", config::name_of(problem.code));
      json.field("key", problem.key);
      json.field("value", problem.value);
      json.field("line", problem.at.line);
      json.field("column", problem.at.column);
      json.field("what", problem.what);
      json.field("remedy", problem.remedy);
      json.close_object();
    }
    json.close_list();
    json.close_object();
  }
  json.close_list();
  json.open_object("summary");
  json.field("files", static_cast<std::int64_t>(files.size()));
  for (const char* verdict : {"fine", "warnings", "rejected"}) {
    json.field(verdict, static_cast<std::int64_t>(count_verdict(files, verdict)));
  }
  json.close_object();
  json.close_object();
  return json.text();
}

std::string explain_text(const std::vector<config::ExplainedKey>& rows) {
  TextTable table({Align::left, Align::left, Align::left, Align::left});
  table.add_row({"key", "value", "from", "note"});
  table.add_rule();
  for (const config::ExplainedKey& row : rows) {
    table.add_row({row.key, row.value, source_text(row), row.note});
  }
  return table.text();
}

std::string explain_json(const std::vector<config::ExplainedKey>& rows) {
  JsonWriter json;
  json.open_list();
  for (const config::ExplainedKey& row : rows) {
    json.open_object();
    json.field("key", row.key);
    json.field("value", row.value);
    json.field("source", config::name_of(row.source));
    json.field("line", row.at.line);
    json.field("column", row.at.column);
    json.field("note", row.note);
    json.close_object();
  }
  json.close_list();
  return json.text();
}

std::string keys_text() {
  TextTable table({Align::left, Align::left, Align::left, Align::left, Align::left});
  table.add_row({"key", "type", "default", "here", "meaning"});
  table.add_rule();
  for (const config::Key& key : config::key_table().keys()) {
    table.add_row({key.path, key.type, config::key_table().default_of(key), effect_word(key.effect),
                   meaning_text(key)});
  }
  return table.text();
}

std::string keys_json() {
  JsonWriter json;
  json.open_list();
  for (const config::Key& key : config::key_table().keys()) {
    json.open_object();
    json.field("key", key.path);
    json.list("only_for", key.only_for);
    json.field("type", key.type);
    json.field("default", config::key_table().default_of(key));
    json.field("here", effect_word(key.effect));
    json.field("meaning", key.meaning);
    json.field("instead", key.instead);
    json.list("aliases", key.aliases);
    json.list("old_spellings", key.old_spellings);
    json.close_object();
  }
  json.close_list();
  return json.text();
}

std::string keys_markdown() {
  std::string out = "| key | type | default | here | meaning |\n|---|---|---|---|---|\n";
  for (const config::Key& key : config::key_table().keys()) {
    out += fmt::format("| `{}` | {} | `{}` | {} | {} |\n", key.path, key.type,
                       config::key_table().default_of(key), effect_word(key.effect),
                       meaning_text(key));
  }
  return out;
}

}  // namespace zeroshard::cli
