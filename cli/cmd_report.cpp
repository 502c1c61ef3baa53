// `zeroshard report`: the page of `train --report`, made of a log later on.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "cli/app.h"
#include "cli/output.h"
#include "zeroshard/base/error.h"
#include "zeroshard/monitor/file_writer.h"
#include "zeroshard/monitor/report.h"

namespace zeroshard::cli {
namespace {

struct ReportArguments {
  std::string log;
  std::string out;
};

int report(const ReportArguments& arguments) {
  std::error_code unknown;
  const bool is_folder = std::filesystem::is_directory(arguments.log, unknown);
  std::ifstream file(arguments.log, std::ios::binary);
  std::string text;
  if (!is_folder) text.assign(std::istreambuf_iterator<char>(file), {});
  if (is_folder || !file) {
    throw ConfigError({.what = is_folder ? "the log is a folder" : "the log cannot be read",
                       .value = arguments.log,
                       .remedy = "name a file that `zeroshard train --log` has written"});
  }
  const std::string out = arguments.out.empty() ? arguments.log + ".html" : arguments.out;
  replace_file(out, report_page(text));
  print(fmt::format("wrote {}\n", out));
  return 0;
}

}  // namespace

void add_report_verb(CommandLine& line) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* verb = add_verb(line.app, "report", "A page about a run, made of its log",
                            "zeroshard report run.jsonl --out run.html");
  verb->add_option("LOG", arguments->log, "What train --log has written")
      ->required()
      ->type_name("FILE.jsonl");
  verb->add_option("--out", arguments->out, "Default: the log's name and .html")
      ->type_name("FILE.html");
  verb->callback([&line, arguments] { line.action = [arguments] { return report(*arguments); }; });
}

}  // namespace zeroshard::cli
