// What a run prints and writes about itself.
#include "zeroshard/config/key_table.h"

namespace zeroshard::config {
namespace {

constexpr const char* kOwnLog = "use tensorboard, csv_monitor or the run's own log";

void add_sink(KeyTable& table, const std::string& section, const char* meaning,
              SinkOptions MonitorOptions::*sink) {
  table.add(Section{.path = section, .meaning = meaning, .unknown_keys = UnknownKeys::refused});
  table.add(option(
      section + ".enabled", [sink](Config & c) -> auto& { return (c.monitor.*sink).enabled; },
      "write it"));
  table.add(option(
      section + ".output_path",
      [sink](Config & c) -> auto& { return (c.monitor.*sink).output_path; }, "directory"));
  table.add(option(
      section + ".job_name", [sink](Config & c) -> auto& { return (c.monitor.*sink).job_name; },
      "directory below it"));
}

Key detail(const std::string& path, const char* meaning, const char* default_value) {
  return absent<Anything>(path, meaning,
                          {.effect = Effect::detail, .default_value = default_value});
}

Key no_effect_switch(const std::string& path, const char* meaning, std::string instead) {
  return absent<bool>(
      path, meaning,
      {.default_value = "false", .instead = std::move(instead), .harmless = {"false"}});
}

void add_other_services(KeyTable& table) {
  const auto strict = UnknownKeys::refused;
  table.add(Section{.path = "wandb", .meaning = "Weights & Biases", .unknown_keys = strict});
  table.add(no_effect_switch("wandb.enabled", "log there", kOwnLog));
  table.add(detail("wandb.group", "group", "null"));
  table.add(detail("wandb.team", "team", "null"));
  table.add(detail("wandb.project", "project", "\"deepspeed\""));
  table.add(Section{.path = "comet", .meaning = "Comet", .unknown_keys = strict});
  table.add(no_effect_switch("comet.enabled", "log there", kOwnLog));
  for (const char* name : {"samples_log_interval", "project", "workspace", "api_key",
                           "experiment_name", "experiment_key", "online", "mode"}) {
    table.add(detail(std::string("comet.") + name, "passed to Comet", "null"));
  }
  table.add(
      Section{.path = "comms_logger", .meaning = "a log of collectives", .unknown_keys = strict});
  table.add(no_effect_switch("comms_logger.enabled", "log collectives",
                             "bytes by operation are always in the run's log"));
  table.add(detail("comms_logger.prof_all", "all operations", "true"));
  table.add(detail("comms_logger.prof_ops", "or these", "[]"));
  table.add(detail("comms_logger.verbose", "print each", "false"));
  table.add(detail("comms_logger.debug", "name the caller", "false"));
}

void add_profiling(KeyTable& table) {
  table.add(Section{.path = "flops_profiler", .meaning = "a profile of one step"});
  table.add(no_effect_switch("flops_profiler.enabled", "profile one step", "use --trace"));
  table.add(detail("flops_profiler.recompute_fwd_factor", "work of recomputing", "0.0"));
  table.add(detail("flops_profiler.profile_step", "which step", "1"));
  table.add(detail("flops_profiler.module_depth", "depth of the table", "-1"));
  table.add(detail("flops_profiler.top_modules", "modules per depth", "1"));
  table.add(detail("flops_profiler.detailed", "print every module", "true"));
  table.add(detail("flops_profiler.output_file", "where to", "null"));
  table.add(Section{.path = "timers", .meaning = "timers"});
  table.add(Section{.path = "timers.throughput",
                    .meaning = "samples per second",
                    .unknown_keys = UnknownKeys::refused});
  table.add(absent<bool>("timers.throughput.enabled", "measure it",
                         {.effect = Effect::tuning,
                          .default_value = "true",
                          .instead = "throughput is always measured",
                          .harmless = {"true"}}));
  table.add(detail("timers.throughput.synchronized", "wait for the device first", "true"));
}

}  // namespace

void add_monitor_keys(KeyTable& table) {
  // accelerate writes infinity for never; no run has so many steps.
  table.add(option("steps_per_print", ZS_FIELD(monitor.steps_per_print),
                   "steps between progress lines; null: the command decides; \"inf\": never",
                   kAtLeastOne)
                .infinity_is("9223372036854775807"));
  table.add(option("wall_clock_breakdown", ZS_FIELD(monitor.wall_clock_breakdown),
                   "time forward, backward and step"));
  Key log_level = option("log_level", ZS_FIELD(monitor.log_level),
                         "debug, info, warning, error or critical; null: --log-level");
  log_level.store = [](const Node& node, Coercion, Config& config) -> Stored {
    for (const char* level : {"debug", "info", "warning", "error", "critical"}) {
      if (!node.is(Node::Kind::text) || !same_but_for_case(node.text, level)) continue;
      config.monitor.log_level = level;
      return {};
    }
    return reject(Code::wrong_type, "\"debug\", \"info\", \"warning\", \"error\" or \"critical\"");
  };
  table.add(std::move(log_level));
  table.add(option("memory_breakdown", ZS_FIELD(monitor.memory_breakdown),
                   "planned beside held memory when a Python engine ends, and what its first "
                   "micro-step takes; `zeroshard train` always shows it"));
  table.add(no_effect_switch("dump_state", "print the engine's attributes",
                             "use zeroshard config explain"));
  table.add(absent<std::int64_t>("vocabulary_size", "warn if it is no multiple of 8",
                                 {.effect = Effect::detail, .default_value = "null"}));
  add_sink(table, "tensorboard", "TensorBoard event files", &MonitorOptions::tensorboard);
  add_sink(table, "csv_monitor", "a CSV file per series", &MonitorOptions::csv);
  add_other_services(table);
  add_profiling(table);
}

}  // namespace zeroshard::config
