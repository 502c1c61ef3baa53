// `zeroshard plan`: bytes per rank for every stage, before anything is allocated.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "cli/app.h"
#include "cli/output.h"
#include "cli/print_plan.h"
#include "cli/usage.h"
#include "zeroshard/base/bytes.h"
#include "zeroshard/base/cpu_limit.h"
#include "zeroshard/base/env.h"
#include "zeroshard/base/error.h"
#include "zeroshard/config/batch_size.h"
#include "zeroshard/config/read.h"
#include "zeroshard/config/summary.h"
#include "zeroshard/layout/placement.h"
#include "zeroshard/planner/memory_fit.h"
#include "zeroshard/setup/settled_config.h"

namespace zeroshard::cli {
namespace {

struct PlanArguments {
  std::string params;
  std::optional<int> world_size;
  int units = 32;
  std::string config_file;
  std::string device;  // "cpu" or "cuda"; empty: what train would take here
  bool json = false;
};

// What is planned for, and what had to be assumed for it.
struct Subject {
  config::ReadResult read;
  bool on_accelerator = true;
  int world_size = 1;
  std::int64_t micro_steps = 1;
  std::vector<std::string> assumptions;
};

// As the paper counts: for GPUs.
Subject default_subject(const PlanArguments& arguments) {
  return {.read = config::read_config(R"({"bf16": {"enabled": true}})"),
          .on_accelerator = arguments.device != "cpu",
          .assumptions = {"no --config: 16-bit parameters and gradients, fp32 master, Adam",
                          "one micro-step per step"}};
}

bool machine_has_gpu() {
  std::error_code none;
  const std::filesystem::directory_iterator gpus("/proc/driver/nvidia/gpus", none);
  return !none && gpus != std::filesystem::directory_iterator();
}

bool choose_accelerator(const PlanArguments& arguments, std::vector<std::string>& assumptions) {
  if (!arguments.device.empty()) return arguments.device == "cuda";
  const bool gpu = machine_has_gpu();
  assumptions.emplace_back(gpu ? "no --device: cuda, as train takes here"
                               : "no --device: cpu, as train takes here");
  return gpu;
}

// The only number of ranks that a full batch triad allows.
std::optional<int> ranks_of(const BatchOptions& batch) {
  if (!batch.train || !batch.micro_per_rank || !batch.accumulation) return std::nullopt;
  return static_cast<int>(*batch.train / (*batch.micro_per_rank * *batch.accumulation));
}

config::ReadResult read_or_refuse(const std::string& file, std::optional<int> world_size) {
  config::ReadResult read = config::read_config_file(file, {.world_size = world_size});
  for (const config::Problem& problem : config::summary(read.report)) {
    std::fprintf(stderr, "%s\n", format_problem(file, problem).c_str());
  }
  if (!read.report.has_errors()) return read;
  throw ConfigError({.what = "cannot plan with this config",
                     .value = file,
                     .remedy = "mend what is listed above"});
}

Subject config_subject(const PlanArguments& arguments) {
  Subject subject{.read = read_or_refuse(arguments.config_file, arguments.world_size)};
  subject.on_accelerator = choose_accelerator(arguments, subject.assumptions);
  const SettledConfig settled =
      settle_config(subject.read, {.on_accelerator = subject.on_accelerator});
  if (settled.chosen_precision) subject.assumptions.push_back(*settled.chosen_precision);
  if (!settled.config.optimizer) subject.assumptions.emplace_back("no optimizer is named: Adam");
  return subject;
}

void settle_ranks(const PlanArguments& arguments, Subject& subject) {
  const BatchOptions& sizes = subject.read.config.batch;
  const auto from_batch = ranks_of(sizes);
  subject.world_size = arguments.world_size.value_or(from_batch.value_or(1));
  if (!arguments.world_size) {
    subject.assumptions.push_back(fmt::format("no --world-size: {} rank{}{}", subject.world_size,
                                              subject.world_size == 1 ? "" : "s",
                                              from_batch ? ", from the batch sizes" : ""));
  }
  const auto batch = config::solve_batch(sizes, subject.world_size);
  subject.micro_steps = batch.sizes ? batch.sizes->accumulation : sizes.accumulation.value_or(1);
  if (!arguments.config_file.empty() && !sizes.accumulation && subject.micro_steps == 1) {
    subject.assumptions.emplace_back("no accumulation is given: one micro-step per step");
  }
}

Subject read_subject(const PlanArguments& arguments) {
  Subject subject =
      arguments.config_file.empty() ? default_subject(arguments) : config_subject(arguments);
  settle_ranks(arguments, subject);
  return subject;
}

// Far beyond any model: parameters that pass in one step, small enough that bytes stay countable.
constexpr std::int64_t kMostParameterPasses = 100'000'000'000'000'000;

std::int64_t parameter_count(const std::string& text, std::int64_t micro_steps) {
  const std::int64_t count = parse_count(text, "--params");
  if (count == 0) {
    throw ConfigError({.what = "a model has parameters",
                       .value = "--params " + text,
                       .remedy = "give their number, such as 124M"});
  }
  if (count <= kMostParameterPasses / micro_steps) return count;
  throw ConfigError({.what = "--params is out of range",
                     .value = text,
                     .remedy = "give at most " + human_count(kMostParameterPasses / micro_steps)});
}

// What train makes of the configuration at a stage.
SettledConfig settled_at(const Subject& subject, std::int64_t parameters, int stage) {
  const RankThreads threads =
      rank_threads(usable_cpus(), subject.world_size, env_integer(EnvVar::kOmpThreads));
  return settle_config(subject.read,
                       {.communication = {.parameters = parameters,
                                          .communicates_beside_compute =
                                              subject.on_accelerator || threads.leave_idle_cores,
                                          .one_rank = subject.world_size == 1},
                        .on_accelerator = subject.on_accelerator,
                        .stage = stage});
}

PlannedStage plan_stage(const ModelLayout& model, FootprintOptions options) {
  const BudgetFit fit = judge_budgets(model, options);
  options.first_host_unit = fit.first_host_unit;
  options.undo_limit_bytes = fit.undo_limit_bytes;
  PlannedStage planned{.stage = options.zero.stage,
                       .footprint = footprint(model, options),
                       .sent_bytes = bytes_sent_per_step(model, options),
                       .units_on_device = tier_plan(model, options).first_host_unit};
  if (fit.shortage) {
    planned.does_not_fit =
        fmt::format("{}: {}; {}", fit.shortage->what, fit.shortage->value, fit.shortage->remedy);
  }
  return planned;
}

// What comes of each stage. The last one has every choice about communication, so that its words
// are those of all.
void plan_stages(const PlanArguments& arguments, const Subject& subject, PlanReport& report) {
  SettledConfig settled;
  for (const Stage& stage : kStages) {
    settled = settled_at(subject, report.parameters, stage.number);
    FootprintOptions options = footprint_options(settled.config, subject.micro_steps);
    options.accelerator = subject.on_accelerator;
    const ModelLayout model = equal_units(report.parameters, arguments.units,
                                          options.precision.model(), subject.world_size);
    report.stages.push_back(plan_stage(model, options));
  }
  report.assumptions.insert(report.assumptions.end(), settled.chosen_communication.begin(),
                            settled.chosen_communication.end());
}

// The stage that the configuration asks for, where it does.
std::optional<int> stage_of(const PlanArguments& arguments, const config::ReadResult& read) {
  const bool open = config::left_at_auto(read.provenance, "zero_optimization.stage");
  if (arguments.config_file.empty() || open) return std::nullopt;
  return read.config.zero.stage;
}

// Where a bf16 parameter lies elsewhere than its master (offload_optimizer), that is whole.
std::string describe_precision(const FootprintOptions& options) {
  const DType dtype = options.precision.model();
  if (dtype == DType::fp32) return "fp32";
  const bool halves = dtype == DType::bf16 && options.zero.halved_masters;
  return fmt::format("{} with fp32 master{}", name_of(dtype), halves ? " in two halves" : "");
}

PlanReport make_report(const PlanArguments& arguments, const Subject& subject) {
  const Config config =
      settle_config(subject.read, {.on_accelerator = subject.on_accelerator}).config;
  const FootprintOptions options = footprint_options(config, subject.micro_steps);
  PlanReport report{
      .parameters = parameter_count(arguments.params, options.micro_steps),
      .world_size = subject.world_size,
      .units = arguments.units,
      .precision = describe_precision(options),
      .optimizer = fmt::format("{} fp32 moment{} per parameter", options.moments_per_parameter,
                               options.moments_per_parameter == 1 ? "" : "s"),
      .assumptions = subject.assumptions,
      .chosen_stage = stage_of(arguments, subject.read),
      .stages = {}};
  report.assumptions.push_back(
      fmt::format("a model of {} equal units, which sizes the buffers (--units)", arguments.units));
  plan_stages(arguments, subject, report);
  return report;
}

int plan(const PlanArguments& arguments) {
  const PlanReport report = make_report(arguments, read_subject(arguments));
  print(arguments.json ? plan_json(report) : plan_text(report));
  return 0;
}

}  // namespace

void add_plan_verb(CommandLine& line) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* verb =
      add_verb(line.app, "plan", "Bytes per rank for every stage",
               "zeroshard plan --params 7.5e9 --world-size 64 --config ds_config.json");
  verb->add_option("--params", arguments->params, "Parameters of the model: 7.5e9, 7.5B, 124M")
      ->type_name("COUNT")
      ->required();
  verb->add_option("--world-size", arguments->world_size,
                   "Ranks (default: what the config's batch sizes say, else 1)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  verb->add_option("--config", arguments->config_file, "Stage, precision and bucket sizes")
      ->type_name("FILE");
  verb->add_option("--device", arguments->device, "cpu or cuda (default: as train takes here)")
      ->type_name("DEVICE")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  verb->add_option("--units", arguments->units, "Equal units the model is cut into (default 32)")
      ->type_name("N")
      ->check(CLI::Range(1, 100'000));
  verb->add_flag("--json", arguments->json, "Print JSON");
  verb->callback([&line, arguments] { line.action = [arguments] { return plan(*arguments); }; });
}

}  // namespace zeroshard::cli
