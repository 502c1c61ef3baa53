// `zeroshard plan`: bytes per rank for every stage, before anything is allocated.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "cli/app.h"
#include "cli/output.h"
#include "cli/print_plan.h"
#include "cli/usage.h"
#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"
#include "zeroshard/config/batch_size.h"
#include "zeroshard/config/read.h"
#include "zeroshard/layout/placement.h"

namespace zeroshard::cli {
namespace {

struct PlanArguments {
  std::string params;
  std::optional<int> world_size;
  int units = 32;
  std::string config_file;
  bool json = false;
};

// What is planned for, and what had to be assumed for it.
struct Subject {
  Config config;
  int world_size = 1;
  std::optional<int> stage;
  std::vector<std::string> assumptions;
};

Subject default_subject() {
  Subject subject;
  subject.config.precision.bf16.enabled = true;
  subject.assumptions = {"no --config: 16-bit parameters and gradients, fp32 master, Adam",
                         "one micro-step per step"};
  return subject;
}

// The only number of ranks that a full batch triad allows.
std::optional<int> ranks_of(const BatchOptions& batch) {
  if (!batch.train || !batch.micro_per_rank || !batch.accumulation) return std::nullopt;
  return static_cast<int>(*batch.train / (*batch.micro_per_rank * *batch.accumulation));
}

config::ReadResult read_or_refuse(const std::string& file, std::optional<int> world_size) {
  config::ReadResult read = config::read_config_file(file, {.world_size = world_size});
  for (const config::Problem& problem : read.report.problems()) {
    std::fprintf(stderr, "%s\n", format_problem(file, problem).c_str());
  }
  if (!read.report.has_errors()) return read;
  throw ConfigError({.what = "cannot plan with this config",
                     .value = file,
                     .remedy = "mend what is listed above"});
}

Subject config_subject(const PlanArguments& arguments) {
  const config::ReadResult read = read_or_refuse(arguments.config_file, arguments.world_size);
  Subject subject;
  subject.config = read.config;
  if (!config::left_at_auto(read.provenance, "zero_optimization.stage")) {
    subject.stage = read.config.zero.stage;
  }
  const bool precision_open = config::left_at_auto(read.provenance, "bf16.enabled") ||
                              config::left_at_auto(read.provenance, "fp16.enabled");
  if (precision_open && read.config.precision.model() == DType::fp32) {
    subject.config.precision.bf16.enabled = true;
    subject.assumptions.emplace_back("the precision is \"auto\": 16 bits");
  }
  if (!read.config.optimizer) subject.assumptions.emplace_back("no optimizer is named: Adam");
  return subject;
}

void settle_ranks(const PlanArguments& arguments, Subject& subject) {
  const auto from_batch = ranks_of(subject.config.batch);
  subject.world_size = arguments.world_size.value_or(from_batch.value_or(1));
  if (!arguments.world_size) {
    subject.assumptions.push_back(fmt::format("no --world-size: {} rank{}{}", subject.world_size,
                                              subject.world_size == 1 ? "" : "s",
                                              from_batch ? ", from the batch sizes" : ""));
  }
  const auto batch = config::solve_batch(subject.config.batch, subject.world_size);
  if (batch.sizes) subject.config.batch.accumulation = batch.sizes->accumulation;
  if (!arguments.config_file.empty() && !subject.config.batch.accumulation) {
    subject.assumptions.emplace_back("no accumulation is given: one micro-step per step");
  }
}

Subject read_subject(const PlanArguments& arguments) {
  Subject subject = arguments.config_file.empty() ? default_subject() : config_subject(arguments);
  settle_ranks(arguments, subject);
  return subject;
}

// Far beyond any model: parameters that pass in one step, small enough that bytes stay countable.
constexpr std::int64_t kMostParameterPasses = 100'000'000'000'000'000;

std::int64_t parameter_count(const std::string& text, std::int64_t micro_steps) {
  const std::int64_t count = parse_count(text, "--params");
  if (count <= kMostParameterPasses / micro_steps) return count;
  throw ConfigError({.what = "--params is out of range",
                     .value = text,
                     .remedy = "give at most " + human_count(kMostParameterPasses / micro_steps)});
}

PlanReport make_report(const PlanArguments& arguments, const Subject& subject) {
  FootprintOptions options = footprint_options(subject.config);
  const DType dtype = options.precision.model();
  PlanReport report{
      .parameters = parameter_count(arguments.params, options.micro_steps),
      .world_size = subject.world_size,
      .units = arguments.units,
      .precision =
          dtype == DType::fp32 ? "fp32" : fmt::format("{} with fp32 master", name_of(dtype)),
      .optimizer = fmt::format("{} fp32 moment{} per parameter", options.moments_per_parameter,
                               options.moments_per_parameter == 1 ? "" : "s"),
      .assumptions = subject.assumptions,
      .chosen_stage = subject.stage,
      .stages = {}};
  report.assumptions.push_back(
      fmt::format("a model of {} equal units, which sizes the buffers (--units)", arguments.units));
  const ModelLayout model =
      equal_units(report.parameters, arguments.units, dtype, subject.world_size);
  for (const Stage& stage : kStages) {
    options.zero.stage = stage.number;
    report.stages.push_back(
        {stage.number, footprint(model, options), bytes_sent_per_step(model, options)});
  }
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
  verb->add_option("--config", arguments->config_file, "Precision, offload and bucket sizes")
      ->type_name("FILE");
  verb->add_option("--units", arguments->units, "Equal units the model is cut into (default 32)")
      ->type_name("N")
      ->check(CLI::Range(1, 100'000));
  verb->add_flag("--json", arguments->json, "Print JSON");
  verb->callback([&line, arguments] { line.action = [arguments] { return plan(*arguments); }; });
}

}  // namespace zeroshard::cli
