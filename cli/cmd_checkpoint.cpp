// `zeroshard checkpoint inspect | verify | export | diff | import`.
#include <cstdio>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/app.h"
#include "cli/checkpoint_import.h"
#include "cli/output.h"
#include "cli/print_checkpoint.h"
#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"

namespace zeroshard::cli {
namespace {

constexpr int kFailedExitCode = 1;

struct Arguments {
  std::string folder;
  std::string second;  // of diff
  std::string out;     // of export
  std::string dtype;
  std::string max_shard = "5GB";
  bool json = false;
};

int inspect(const Arguments& arguments) {
  const StateFiles files = StateFiles::open(arguments.folder);
  print(arguments.json ? inspect_json(files) : inspect_text(files));
  return 0;
}

// A line that is written over, for who waits at a terminal.
class Progress {
 public:
  explicit Progress(const StateFiles& files) {
    for (const StoredFile& file : files.manifest().files) all_ += file.bytes;
  }
  ~Progress() {
    if (shown_) std::fprintf(stderr, "\r\x1b[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void see(std::uint64_t bytes) {
    constexpr std::uint64_t kEvery = std::uint64_t{256} << 20U;
    if (!on_terminal_ || bytes < next_) return;
    next_ = bytes + kEvery;
    shown_ = true;
    std::fprintf(stderr, "\r%s of %s", human_bytes(static_cast<std::int64_t>(bytes)).c_str(),
                 human_bytes(static_cast<std::int64_t>(all_)).c_str());
  }

 private:
  const bool on_terminal_ = ::isatty(STDERR_FILENO) == 1;
  std::uint64_t all_ = 0;
  std::uint64_t next_ = 1;
  bool shown_ = false;
};

int verify_folder(const Arguments& arguments) {
  const StateFiles files = StateFiles::open(arguments.folder);
  const Verified verified = [&] {
    Progress progress(files);
    return verify(files, [&](std::uint64_t bytes) { progress.see(bytes); });
  }();
  print(arguments.json ? verify_json(files, verified) : verify_text(files, verified));
  if (verified.damaged.empty()) return 0;
  throw StorageError({.what = "this checkpoint is damaged",
                      .value = files.folder().string(),
                      .remedy = "take another one, or fetch its damaged files again"});
}

ExportOptions export_options(const Arguments& arguments) {
  ExportOptions options;
  if (!arguments.dtype.empty()) {
    options.dtype = parse_float_dtype(arguments.dtype);
    if (!options.dtype) {
      throw ConfigError({.what = "--dtype is none that weights can have",
                         .value = arguments.dtype,
                         .remedy = "give fp32, bf16 or fp16"});
    }
  }
  const std::int64_t bytes = parse_bytes(arguments.max_shard, "--max-shard");
  if (bytes < 1) {
    throw ConfigError({.what = "--max-shard is no size",
                       .value = arguments.max_shard,
                       .remedy = "give one such as 5GB"});
  }
  options.max_shard_bytes = static_cast<std::uint64_t>(bytes);
  return options;
}

int export_folder(const Arguments& arguments) {
  const ExportOptions options = export_options(arguments);
  const StateFiles files = StateFiles::open(arguments.folder);
  const ExportedRun exported = export_run(files, arguments.out, options);
  print(arguments.json ? export_json(arguments.out, exported)
                       : export_text(arguments.out, exported));
  return 0;
}

int diff(const Arguments& arguments) {
  const StateFiles first = StateFiles::open(arguments.folder);
  const StateFiles second = StateFiles::open(arguments.second);
  const Comparison comparison = compare(first, second);
  print(arguments.json ? diff_json(first, second, comparison)
                       : diff_text(first, second, comparison));
  return comparison.same_states() ? 0 : kFailedExitCode;
}

using Act = int (*)(const Arguments&);

std::shared_ptr<Arguments> add(CommandLine& line, CLI::App& verb, Act act) {
  auto arguments = std::make_shared<Arguments>();
  verb.add_flag("--json", arguments->json, "Print JSON");
  verb.callback(
      [&line, arguments, act] { line.action = [arguments, act] { return act(*arguments); }; });
  return arguments;
}

void add_folder(CLI::App& verb, const char* name, std::string& folder) {
  verb.add_option(name, folder,
                  "A checkpoint, a folder of checkpoints (then its latest), or a HuggingFace model")
      ->required()
      ->type_name("");
}

void add_inspect(CommandLine& line, CLI::App& parent) {
  CLI::App* verb = add_verb(parent, "inspect", "Say what is in a checkpoint",
                            "zeroshard checkpoint inspect runs/7");
  add_folder(*verb, "DIR", add(line, *verb, inspect)->folder);
}

void add_verify(CommandLine& line, CLI::App& parent) {
  CLI::App* verb = add_verb(parent, "verify", "Read all of a checkpoint and check every byte",
                            "zeroshard checkpoint verify runs/7/global_step200");
  add_folder(*verb, "DIR", add(line, *verb, verify_folder)->folder);
}

void add_export(CommandLine& line, CLI::App& parent) {
  CLI::App* verb = add_verb(parent, "export", "Write a checkpoint's weights as a HuggingFace model",
                            "zeroshard checkpoint export runs/7 model --dtype bf16");
  const auto arguments = add(line, *verb, export_folder);
  add_folder(*verb, "DIR", arguments->folder);
  verb->add_option("OUT", arguments->out, "The folder to write")->required()->type_name("");
  verb->add_option("--dtype", arguments->dtype,
                   "Of all weights (default: each as the model computes with it)")
      ->type_name("fp32|bf16|fp16");
  verb->add_option("--max-shard", arguments->max_shard, "Size of a file at most (default 5GB)")
      ->type_name("SIZE");
}

void add_diff(CommandLine& line, CLI::App& parent) {
  CLI::App* verb =
      add_verb(parent, "diff", "Compare two checkpoints; exit code 1 where states differ",
               "zeroshard checkpoint diff runs/7/global_step100 runs/8/global_step100");
  const auto arguments = add(line, *verb, diff);
  add_folder(*verb, "A", arguments->folder);
  add_folder(*verb, "B", arguments->second);
}

}  // namespace

void add_checkpoint_verb(CommandLine& line) {
  CLI::App* verb = add_verb(line.app, "checkpoint", "Look at, check and export checkpoints",
                            "zeroshard checkpoint inspect runs/7");
  verb->require_subcommand(1);
  add_inspect(line, *verb);
  add_verify(line, *verb);
  add_export(line, *verb);
  add_diff(line, *verb);
  add_checkpoint_import(line, *verb);
}

}  // namespace zeroshard::cli
