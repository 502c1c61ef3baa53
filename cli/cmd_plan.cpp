// `zeroshard plan`: what a model takes of a machine, before anything is allocated.
#include <cerrno>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/app.h"
#include "cli/output.h"
#include "cli/plan_report.h"
#include "cli/usage.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/file_error.h"

namespace zeroshard::cli {
namespace {

void write_file(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  errno = 0;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) throw file_error("the plan cannot be written", path, errno);
}

void refuse_contradictions(const PlanArguments& arguments) {
  if (!arguments.model.empty() && !arguments.params.empty()) {
    throw ConfigError({.what = "--model and --params both say what is planned for",
                       .value = arguments.params,
                       .remedy = "give one of the two"});
  }
  if (!arguments.model.empty() && arguments.units) {
    throw ConfigError({.what = "--layers is for --params, and --model has its own",
                       .value = fmt::format("{}", *arguments.units),
                       .remedy = "write layers=N into --model gpt:..., or leave out --layers"});
  }
  const bool writes =
      !arguments.write_file.empty() || !arguments.svg_file.empty() || !arguments.html_file.empty();
  if (!arguments.compare.empty() && writes) {
    throw ConfigError({.what = "--compare writes no files",
                       .value = "--write, --svg and --html are of one configuration",
                       .remedy = "leave out --compare and name one with --config"});
  }
  if (!arguments.compare.empty() && !arguments.config_file.empty()) {
    throw ConfigError({.what = "--compare has the configurations already",
                       .value = arguments.config_file,
                       .remedy = "leave out --config"});
  }
}

// Each as it asks for, whatever a tree would say.
int compare(const PlanArguments& arguments) {
  std::vector<PlanReport> reports;
  for (const std::string& file : arguments.compare) {
    PlanReport report = make_plan_report(read_plan_inputs(arguments, file));
    report.title = file;
    if (report.configured) report.chosen = report.variant(*report.configured);
    reports.push_back(std::move(report));
  }
  print(arguments.json ? comparison_json(reports) : comparison_text(reports));
  return 0;
}

// A configuration that does not fit is none to use.
void refuse_to_write(const PlanReport& report) {
  if (!report.decision || report.decision->fits) return;
  throw ConfigError({.what = "nothing fits, so that there is no configuration to write",
                     .value = report.decision->words.back(),
                     .remedy = "take more ranks, a smaller micro-batch, or more memory"});
}

int plan(const PlanArguments& arguments) {
  refuse_contradictions(arguments);
  if (!arguments.compare.empty()) return compare(arguments);
  const PlanReport report = make_plan_report(read_plan_inputs(arguments));
  if (!arguments.write_file.empty()) refuse_to_write(report);
  write_file(arguments.write_file, report.config_text);
  if (!arguments.svg_file.empty()) write_file(arguments.svg_file, plan_svg(report));
  if (!arguments.html_file.empty()) write_file(arguments.html_file, plan_html(report));
  print(arguments.json ? plan_json(report) : plan_text(report));
  return 0;
}

void add_model_options(CLI::App& verb, PlanArguments& arguments) {
  verb.add_option("--model", arguments.model,
                  "gpt:key=value,... as train takes it, or a config.json (or its folder), also of "
                  "HuggingFace's GPT-2, Llama, Mistral, Qwen, Gemma, Phi")
      ->type_name("SPEC");
  verb.add_option("--params", arguments.params, "Parameters of any other model: 7.5e9, 7.5B, 124M")
      ->type_name("COUNT");
  verb.add_option("--layers,--units", arguments.units,
                  "With --params: equal layers it is cut into (default 32)")
      ->type_name("N")
      ->check(CLI::Range(1, 100'000));
  verb.add_option("--seq", arguments.sequence, "Tokens of a sample (default: the model's)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  verb.add_option("--micro-batch", arguments.micro_batch,
                  "Samples of a rank at once (default: the config's, else 1)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  verb.add_option("--lora-rank", arguments.lora_rank,
                  "Adapters on queries and values, all else frozen")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 16));
  verb.add_flag("--whole-masters", arguments.whole_masters,
                "Masters of bf16 parameters in one piece, as the ZeRO papers count");
  verb.add_flag("--checkpoint", arguments.checkpoint, "Layers are computed again in backward");
}

void add_machine_options(CLI::App& verb, PlanArguments& arguments) {
  verb.add_option("--world-size", arguments.world_size,
                  "Ranks (default: what the config's batch sizes say, else 1)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  verb.add_option("--ranks-per-node", arguments.ranks_per_node,
                  "Of these, on each host (default: 8 GPUs, or all CPU ranks)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  verb.add_option("--nics-per-node", arguments.nics_per_node,
                  "Network cards of each host, which its ranks share (default: one for each rank)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  verb.add_option("--device", arguments.device, "cpu or cuda (default: as train takes here)")
      ->type_name("DEVICE")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  verb.add_option("--device-memory", arguments.device_memory,
                  "24GiB, or a device: H100, A100-40GB, 4090 (default: the device here)")
      ->type_name("SIZE");
  verb.add_option("--host-memory", arguments.host_memory,
                  "Of each host, for all its ranks (default: what this one leaves)")
      ->type_name("SIZE");
  verb.add_option("--bandwidth", arguments.bandwidth,
                  "What a rank sends per second: 25GB (default: measured, else assumed)")
      ->type_name("SIZE");
}

void add_output_options(CLI::App& verb, PlanArguments& arguments) {
  verb.add_option("--config", arguments.config_file, "Stage, precision, batch and bucket sizes")
      ->type_name("FILE");
  verb.add_option("--compare", arguments.compare, "Plan several configurations side by side")
      ->type_name("FILE...");
  verb.add_flag("--json", arguments.json, "Print JSON");
  verb.add_option("--write", arguments.write_file, "Write the configuration to use")
      ->type_name("FILE");
  verb.add_option("--svg", arguments.svg_file, "Write a picture")->type_name("FILE");
  verb.add_option("--html", arguments.html_file, "Write a page with picture and tables")
      ->type_name("FILE");
}

}  // namespace

void add_plan_verb(CommandLine& line) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* verb = add_verb(
      line.app, "plan", "What a model takes of a machine: memory, traffic, time",
      "zeroshard plan --params 7.5e9 --world-size 64 --device cuda\n"
      "  zeroshard plan --model gpt2-xl/ --world-size 8 --device-memory 24GiB --micro-batch 4");
  add_model_options(*verb, *arguments);
  add_machine_options(*verb, *arguments);
  add_output_options(*verb, *arguments);
  verb->callback([&line, arguments] { line.action = [arguments] { return plan(*arguments); }; });
}

}  // namespace zeroshard::cli
