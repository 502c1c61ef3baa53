// `zeroshard config check | explain | keys`.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/app.h"
#include "cli/output.h"
#include "cli/print_config.h"
#include "cli/usage.h"
#include "zeroshard/base/error.h"
#include "zeroshard/config/read.h"
#include "zeroshard/config/summary.h"

namespace zeroshard::cli {
namespace {

struct CheckArguments {
  std::vector<std::string> files;
  config::ReadOptions read;
  bool verbose = false;
  bool json = false;
};

struct ExplainArguments {
  std::string file;
  config::ReadOptions read;
  bool json = false;
};

struct KeysArguments {
  bool json = false;
  bool markdown = false;
};

// Where no batch size is a number, the ranks that somebody has given have nothing to be checked
// against.
void warn_of_idle_world_size(const BatchOptions& batch, config::Report& report) {
  if (report.has_errors() || batch.train || batch.micro_per_rank) return;
  report.add({.severity = config::Severity::warning,
              .code = config::Code::missing_key,
              .what = "--world-size has nothing to check: no batch size is given as a number",
              .remedy = "give train_batch_size or train_micro_batch_size_per_gpu"});
}

// A file that cannot be read is one more rejected file, so that the others are still checked.
CheckedFile check_file(const std::string& path, const config::ReadOptions& options) {
  try {
    config::ReadResult read = config::read_config_file(path, options);
    if (options.world_size) warn_of_idle_world_size(read.config.batch, read.report);
    return {path, std::move(read.report)};
  } catch (const ConfigError& error) {
    config::Report report;
    report.add({.severity = config::Severity::error,
                .code = config::Code::unreadable,
                .what = error.fault().what,
                .remedy = error.fault().remedy});
    return {path, report};
  }
}

int check(const CheckArguments& arguments) {
  std::vector<CheckedFile> files;
  bool rejected = false;
  for (const std::string& path : arguments.files) {
    files.push_back(check_file(path, arguments.read));
    rejected = rejected || files.back().report.has_errors();
  }
  print(arguments.json ? check_json(files, arguments.verbose)
                       : check_text(files, arguments.verbose));
  return rejected ? kUsageExitCode : 0;
}

int explain_file(const ExplainArguments& arguments) {
  config::ReadResult read = config::read_config_file(arguments.file, arguments.read);
  if (arguments.read.world_size) warn_of_idle_world_size(read.config.batch, read.report);
  // On stderr, so that the table or the JSON can be piped on.
  for (const config::Problem& problem : config::summary(read.report)) {
    std::fprintf(stderr, "%s\n", format_problem(arguments.file, problem).c_str());
  }
  if (read.report.has_errors()) return kUsageExitCode;
  const auto rows = config::explain(read, arguments.read.world_size);
  print(arguments.json ? explain_json(rows) : explain_text(rows));
  return 0;
}

int list_keys(const KeysArguments& arguments) {
  const std::string text = arguments.json       ? keys_json()
                           : arguments.markdown ? keys_markdown()
                                                : keys_text();
  print(text);
  return 0;
}

void add_world_size(CLI::App& verb, std::optional<int>& world_size) {
  verb.add_option("--world-size", world_size, "Ranks: solves and checks the batch sizes")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
}

void add_check(CommandLine& line, CLI::App& parent) {
  auto arguments = std::make_shared<CheckArguments>();
  CLI::App* verb = add_verb(parent, "check", "Say all that is wrong with config files",
                            "zeroshard config check ds_config.json --world-size 8");
  verb->add_option("FILE", arguments->files, "Config files")->required()->take_all();
  verb->add_flag("--strict", arguments->read.strict, "Unknown keys are errors");
  verb->add_flag("--json", arguments->json, "Print JSON");
  verb->add_flag("-v,--verbose", arguments->verbose,
                 "Also keys that change nothing, and each warning by itself");
  add_world_size(*verb, arguments->read.world_size);
  verb->callback([&line, arguments] { line.action = [arguments] { return check(*arguments); }; });
}

void add_explain(CommandLine& line, CLI::App& parent) {
  auto arguments = std::make_shared<ExplainArguments>();
  CLI::App* verb = add_verb(parent, "explain", "Print every key's value and where it came from",
                            "zeroshard config explain ds_config.json --world-size 8");
  verb->add_option("FILE", arguments->file, "Config file")->required();
  verb->add_flag("--json", arguments->json, "Print JSON");
  add_world_size(*verb, arguments->read.world_size);
  verb->callback(
      [&line, arguments] { line.action = [arguments] { return explain_file(*arguments); }; });
}

void add_keys(CommandLine& line, CLI::App& parent) {
  auto arguments = std::make_shared<KeysArguments>();
  CLI::App* verb = add_verb(parent, "keys", "List every key: type, default, meaning",
                            "zeroshard config keys | grep prefetch");
  verb->add_flag("--json", arguments->json, "Print JSON");
  verb->add_flag("--markdown", arguments->markdown, "Print the table of docs/config.md");
  verb->callback(
      [&line, arguments] { line.action = [arguments] { return list_keys(*arguments); }; });
}

}  // namespace

void add_config_verb(CommandLine& line) {
  CLI::App* verb = add_verb(line.app, "config", "Check and explain ds_config.json",
                            "zeroshard config check ds_config.json");
  verb->require_subcommand(1);
  add_check(line, *verb);
  add_explain(line, *verb);
  add_keys(line, *verb);
}

}  // namespace zeroshard::cli
