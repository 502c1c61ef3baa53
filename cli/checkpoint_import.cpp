#include "cli/checkpoint_import.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/find_python.h"
#include "cli/process.h"
#include "zeroshard/base/error.h"

namespace zeroshard::cli {
namespace {

struct ImportArguments {
  std::string folder;
  std::string out;
  std::string tag;
  bool universal = false;
};

// The package first, before anything of that name in the current folder.
constexpr const char* kProgram =
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from zeroshard.import_deepspeed import main; sys.exit(main())";

void check_folder(const std::string& folder) {
  std::error_code ignored;
  if (std::filesystem::is_directory(folder, ignored)) return;
  throw ConfigError({.what = "no such folder",
                     .value = folder,
                     .remedy = "give the one with DeepSpeed's file `latest`, or that of one tag"});
}

[[noreturn]] void import_checkpoint(const ImportArguments& arguments) {
  check_folder(arguments.folder);  // before Python and torch are loaded
  const std::string python = find_python();
  const std::filesystem::path package = find_package(python);
  std::vector<std::string> command{python,           "-c",         kProgram, package.parent_path(),
                                   arguments.folder, arguments.out};
  if (!arguments.tag.empty()) command.insert(command.end(), {"--tag", arguments.tag});
  if (arguments.universal) command.emplace_back("--universal");
  become(command);
}

}  // namespace

void add_checkpoint_import(CommandLine& line, CLI::App& parent) {
  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* verb = add_verb(parent, "import", "Make a checkpoint of ours of one of DeepSpeed's",
                            "zeroshard checkpoint import deepspeed-run/ runs/7");
  verb->add_option("DS_DIR", arguments->folder,
                   "What DeepSpeed's save_checkpoint() has written: stage 1, 2 or 3, or universal")
      ->required();
  verb->add_option("OUT", arguments->out, "Folder of checkpoints; it gets the tag of DS_DIR")
      ->required();
  verb->add_option("--tag", arguments->tag, "Instead of the one that `latest` names")
      ->type_name("TAG");
  verb->add_flag("--universal", arguments->universal, "The one that `latest_universal` names");
  verb->callback([&line, arguments] {
    line.action = [arguments]() -> int { import_checkpoint(*arguments); };
  });
}

}  // namespace zeroshard::cli
