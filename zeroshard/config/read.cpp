#include "zeroshard/config/read.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/config/key_table.h"
#include "zeroshard/config/parse.h"
#include "zeroshard/config/validate.h"
#include "zeroshard/config/walk.h"

namespace zeroshard::config {
namespace {

// One byte more than a config may have, so that the parser sees it is too large.
std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxConfigBytes + 1, '\0');
  if (file.is_open()) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  // A folder opens, and is found out by the first read.
  if (!file.is_open() || file.bad()) {
    throw ConfigError({.what = "cannot read the config file",
                       .value = path,
                       .remedy = fmt::format("{}; check the path", std::strerror(errno))});
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

ParsedConfig parse_config(std::string_view text) {
  ParsedConfig parsed;
  parsed.root = parse(text, parsed.report);
  parsed.text = text;
  return parsed;
}

ParsedConfig parse_config_file(const std::string& path) { return parse_config(read_text(path)); }

ReadResult read_config(const ParsedConfig& parsed, const ReadOptions& options) {
  if (options.world_size && *options.world_size < 1) {
    throw ConfigError({.what = "the number of ranks is out of range",
                       .value = fmt::format("{}", *options.world_size),
                       .remedy = "give at least 1"});
  }
  ReadResult read{.config = {}, .provenance = {}, .report = Report(options.strict)};
  for (const Problem& problem : parsed.report.problems()) read.report.add(problem);
  if (parsed.root) {
    Walk(read.config, read.provenance, read.report).run(*parsed.root);
    validate(read.config, read.provenance, options.world_size, read.report);
    settle(read.config, read.provenance);
  }
  read.report.sort();
  return read;
}

ReadResult read_config(std::string_view text, const ReadOptions& options) {
  return read_config(parse_config(text), options);
}

ReadResult read_config_file(const std::string& path, const ReadOptions& options) {
  return read_config(parse_config_file(path), options);
}

void refuse_errors(const std::string& path, const Report& report) {
  if (!report.has_errors()) return;
  std::string lines;
  for (const Problem& problem : report.problems()) {
    if (problem.severity == Severity::error) lines += "\n  " + format_problem(path, problem);
  }
  throw ConfigError(
      {.what = fmt::format("{} problems", report.count(Severity::error)), .value = path + lines});
}

Config load_config(const std::string& path, const ReadOptions& options) {
  ReadResult read = read_config_file(path, options);
  refuse_errors(path, read.report);
  return std::move(read.config);
}

Report recheck(const ReadResult& read, const ReadOptions& options) {
  Report report(options.strict);
  validate(read.config, read.provenance, options.world_size, report);
  report.sort();
  return report;
}

void resolve_auto(ReadResult& read, std::string_view key, std::string_view json_value) {
  const auto origin = read.provenance.find(key);
  if (origin == read.provenance.end() || origin->second.source != Source::automatic) {
    throw ConfigError({.what = "the key is not at \"auto\"",
                       .value = std::string(key),
                       .remedy = "only keys that the file leaves at \"auto\" are resolved"});
  }
  Report report;
  const auto root = parse(fmt::format("{{\"value\": {}}}", json_value), report);
  const std::string kind = kind_given(read.provenance, parent_of(key));
  const Key* row = key_table().find_key(key, kind);
  if (!root || row == nullptr || root->members.size() != 1) {
    throw ConfigError({.what = fmt::format("cannot resolve {}", key),
                       .value = std::string(json_value),
                       .remedy = "give a JSON value"});
  }
  const Node& node = root->members.front().value;
  const Stored stored = row->store(node, Coercion::typed_section, read.config);
  if (stored.rejected) {
    throw ConfigError({.what = fmt::format("cannot resolve {}", key),
                       .value = std::string(json_value),
                       .remedy = "expected " + stored.rejected->expected});
  }
  if (row->effect == Effect::changes_results && !row->harmless(node, Coercion::typed_section)) {
    throw ConfigError(
        {.what = fmt::format("{} changes results and ZeroShard does not have it", key),
         .value = std::string(json_value),
         .remedy = row->instead});
  }
  origin->second.source = Source::resolved;
  origin->second.value = spelling(node);
  settle(read.config, read.provenance);
}

}  // namespace zeroshard::config
