// `zeroshard plan`: bytes per rank for every stage, before anything is allocated.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "cli/app.h"
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
  int world_size = 1;
  int units = 32;
  std::string config_file;
  bool json = false;
};

// What is planned for, and what had to be assumed for it.
struct Subject {
  Config config;
  std::optional<int> stage;
  std::vector<std::string> assumptions;
};

bool left_at_auto(const config::Provenance& provenance, std::string_view key) {
  const auto found = provenance.find(key);
  return found != provenance.end() && found->second.source == config::Source::automatic;
}

Subject default_subject() {
  Subject subject;
  subject.config.precision.bf16.enabled = true;
  subject.assumptions = {"no --config: 16-bit parameters and gradients, fp32 master, Adam",
                         "one micro-step per step"};
  return subject;
}

Subject read_subject(const PlanArguments& arguments) {
  if (arguments.config_file.empty()) return default_subject();
  const config::ReadOptions options{.world_size = arguments.world_size};
  const config::ReadResult read = config::read_config_file(arguments.config_file, options);
  for (const config::Problem& problem : read.report.problems()) {
    std::fprintf(stderr, "%s\n", format_problem(arguments.config_file, problem).c_str());
  }
  if (read.report.has_errors()) {
    throw ConfigError({.what = "cannot plan with this config",
                       .value = arguments.config_file,
                       .remedy = "mend what is listed above"});
  }
  Subject subject{.config = read.config, .stage = {}, .assumptions = {}};
  if (!left_at_auto(read.provenance, "zero_optimization.stage"))
    subject.stage = read.config.zero.stage;
  const bool precision_open = left_at_auto(read.provenance, "bf16.enabled") ||
                              left_at_auto(read.provenance, "fp16.enabled");
  if (precision_open && read.config.precision.model() == DType::fp32) {
    subject.config.precision.bf16.enabled = true;
    subject.assumptions.emplace_back("the precision is \"auto\": 16 bits");
  }
  if (!read.config.optimizer) subject.assumptions.emplace_back("no optimizer is named: Adam");
  const auto batch = config::solve_batch(read.config.batch, arguments.world_size);
  if (batch.sizes) subject.config.batch.accumulation = batch.sizes->accumulation;
  if (!subject.config.batch.accumulation) {
    subject.assumptions.emplace_back("no accumulation is given: one micro-step per step");
  }
  return subject;
}

// Far beyond any model, and small enough that no product of sizes overflows.
constexpr std::int64_t kMostParameters = 1'000'000'000'000'000;

std::int64_t parameter_count(const std::string& text) {
  const std::int64_t count = parse_count(text, "--params");
  if (count <= kMostParameters) return count;
  throw ConfigError({.what = "--params is out of range",
                     .value = text,
                     .remedy = "give at most " + human_count(kMostParameters)});
}

PlanReport make_report(const PlanArguments& arguments, const Subject& subject) {
  FootprintOptions options = footprint_options(subject.config);
  const DType dtype = options.precision.model();
  PlanReport report{
      .parameters = parameter_count(arguments.params),
      .world_size = arguments.world_size,
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
      equal_units(report.parameters, arguments.units, dtype, arguments.world_size);
  for (const Stage& stage : kStages) {
    options.zero.stage = stage.number;
    report.stages.push_back(
        {stage.number, footprint(model, options), bytes_sent_per_step(model, options)});
  }
  return report;
}

int plan(const PlanArguments& arguments) {
  const PlanReport report = make_report(arguments, read_subject(arguments));
  std::fputs((arguments.json ? plan_json(report) : plan_text(report)).c_str(), stdout);
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
  verb->add_option("--world-size", arguments->world_size, "Ranks (default 1)")
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
