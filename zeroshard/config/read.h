// ds_config.json to Config, with every problem of the file at once.
//
//   ReadResult read = read_config_file("ds_config.json", {.world_size = 8});
//   for (const Problem& problem : read.report.problems()) ...
//   if (!read.report.has_errors()) train(read.config);
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "zeroshard/config/config.h"
#include "zeroshard/config/node.h"
#include "zeroshard/config/problem.h"
#include "zeroshard/config/provenance.h"

namespace zeroshard::config {

struct ReadOptions {
  bool strict = false;                           // unknown keys are errors
  std::optional<int> world_size = std::nullopt;  // checks and solves the batch sizes
};

struct ReadResult {
  Config config;
  Provenance provenance;
  Report report;
};

// A text that is parsed once, and read again where more is known: the number of ranks, say.
struct ParsedConfig {
  std::optional<Node> root;  // unset where the text is no JSON
  Report report;             // of its syntax alone
  std::string text;          // as it was read
};

ParsedConfig parse_config(std::string_view text);
// A file that cannot be opened or read throws ConfigError.
ParsedConfig parse_config_file(const std::string& path);

ReadResult read_config(const ParsedConfig& parsed, const ReadOptions& options = {});
ReadResult read_config(std::string_view text, const ReadOptions& options = {});
ReadResult read_config_file(const std::string& path, const ReadOptions& options = {});

// For callers that want a good config or nothing: throws a ConfigError with all errors of `path`.
void refuse_errors(const std::string& path, const Report& report);

// A good config or nothing.
Config load_config(const std::string& path, const ReadOptions& options = {});

// The caller's answer to a key that the file left at "auto", as JSON text ("0.001", "[0.9, 0.95]").
// Throws ConfigError where the key is not at "auto" or the value does not fit it.
void resolve_auto(ReadResult& read, std::string_view key, std::string_view json_value);

// The checks that concern several keys, once more: after the caller has resolved what was "auto".
Report recheck(const ReadResult& read, const ReadOptions& options = {});

}  // namespace zeroshard::config
