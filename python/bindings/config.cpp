#include "python/bindings/config.h"

#include <utility>

#include <fmt/format.h>
#include <pybind11/stl.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/config/summary.h"
#include "zeroshard/setup/choose_device.h"
#include "zeroshard/setup/engine_options.h"
#include "zeroshard/setup/settled_config.h"

namespace zeroshard::python {
namespace {

// Every error at once, as one message; warnings go to the log, on rank 0.
void report_problems(const std::string& source, const config::Report& report) {
  std::string lines;
  for (const config::Problem& problem : config::summary(report)) {
    if (problem.severity == config::Severity::error) {
      lines += "\n  " + format_problem(source, problem);
    } else {
      log_warning("{}", describe_problem(source, problem));
    }
  }
  if (lines.empty()) return;
  throw ConfigError({.what = fmt::format("{} problem(s) in the configuration",
                                         report.count(config::Severity::error)),
                     .value = lines});
}

// `is_file`: else the text is a dictionary's, and its lines and columns are nobody's.
PythonConfig read(const std::string& text, const std::string& source, int world_size,
                  bool is_file) {
  config::ParsedConfig parsed = config::parse_config(text);
  config::ReadResult result = config::read_config(parsed, {.world_size = world_size});
  PythonConfig made{.parsed = std::move(parsed), .read = std::move(result), .batch = {}};
  if (!is_file) made.read.report.forget_positions();
  report_problems(source, made.read.report);
  made.batch = config::solve_batch(made.read.config.batch, world_size).sizes;
  return made;
}

py::object number_of(const std::string& spelling) {
  const bool whole = spelling.find_first_of(".eEnN") == std::string::npos;
  const py::str text(spelling);
  if (whole) return py::module_::import("builtins").attr("int")(text);
  return py::float_(text);
}

py::object value_of(const config::Node& node) {
  switch (node.kind) {
    case config::Node::Kind::null: return py::none();
    case config::Node::Kind::boolean: return py::bool_(node.boolean);
    case config::Node::Kind::number: return number_of(node.text);
    case config::Node::Kind::text: return py::str(node.text);
    case config::Node::Kind::list: {
      py::list items;
      for (const config::Node& item : node.items) items.append(value_of(item));
      return items;
    }
    case config::Node::Kind::object: break;
  }
  py::dict members;
  for (const config::Member& member : node.members) {
    members[py::str(member.key)] = value_of(member.value);
  }
  return members;
}

// What a dictionary says whose other values somebody may still have to fill in: its mistakes are
// said by read(), when it is finished.
PythonConfig read_unfinished(const std::string& text) {
  config::ParsedConfig parsed = config::parse_config(text);
  config::ReadResult result = config::read_config(parsed);
  return {.parsed = std::move(parsed), .read = std::move(result), .batch = {}};
}

// The text as a dictionary, comments and trailing commas forgiven.
py::object values_of(const PythonConfig& config) {
  return config.parsed.root ? value_of(*config.parsed.root) : py::dict();
}

py::object optimizer_of(const PythonConfig& config) {
  if (!config.read.config.optimizer) return py::none();
  py::dict values;
  struct Fill {
    py::dict& to;
    std::string operator()(const AdamOptions& adam) const {
      to["lr"] = adam.lr;
      to["betas"] = py::make_tuple(adam.betas[0], adam.betas[1]);
      to["eps"] = adam.eps;
      to["weight_decay"] = adam.weight_decay;
      to["bias_correction"] = adam.bias_correction;
      return adam.decoupled_decay ? "adam" : "adam_l2";
    }
    std::string operator()(const SgdOptions& sgd) const {
      to["lr"] = sgd.lr;
      to["momentum"] = sgd.momentum;
      to["dampening"] = sgd.dampening;
      to["weight_decay"] = sgd.weight_decay;
      to["nesterov"] = sgd.nesterov;
      return "sgd";
    }
    std::string operator()(const LionOptions& lion) const {
      to["lr"] = lion.lr;
      to["betas"] = py::make_tuple(lion.betas[0], lion.betas[1]);
      to["weight_decay"] = lion.weight_decay;
      return "lion";
    }
    std::string operator()(const AdagradOptions& adagrad) const {
      to["lr"] = adagrad.lr;
      to["eps"] = adagrad.eps;
      to["weight_decay"] = adagrad.weight_decay;
      return "adagrad";
    }
  };
  const std::string kind = std::visit(Fill{values}, *config.read.config.optimizer);
  return py::make_tuple(kind, values);
}

// What a dynamic loss scale goes by.
py::dict loss_scaling_of(const PythonConfig& config) {
  const Fp16Options& fp16 = config.read.config.precision.fp16;
  py::dict values;
  values["window"] = fp16.loss_scale_window;
  values["hysteresis"] = fp16.hysteresis;
  values["consecutive_hysteresis"] = fp16.consecutive_hysteresis;
  values["minimum"] = fp16.min_loss_scale;
  return values;
}

std::vector<std::string> left_at_auto_in(const PythonConfig& config) {
  std::vector<std::string> keys;
  for (const auto& [key, origin] : config.read.provenance) {
    if (origin.source == config::Source::automatic) keys.push_back(key);
  }
  return keys;
}

py::object batch_of(const PythonConfig& config) {
  if (!config.batch) return py::none();
  return py::make_tuple(config.batch->train, config.batch->micro_per_rank,
                        config.batch->accumulation);
}

}  // namespace

EngineOptions engine_options_of(const PythonConfig& config, const CoreSettings& settings) {
  const Device device = choose_device(settings.device, 0);
  const SettledConfig settled = settle_config(
      config.read,
      {.communication = {
           .parameters = settings.parameters,
           .topology = {.ranks = settings.ranks, .ranks_per_node = settings.ranks_on_host},
           .on_accelerator = device != kCpu,
           .communicates_beside_compute = settings.communicates_beside_compute}});
  EngineOptions options = engine_options(settled.config, device, settings.accumulation_steps);
  options.threads = settings.threads;
  return options;
}

void bind_config(py::module_& module) {
  py::class_<PythonConfig>(module, "Config")
      .def_static("read", &read, py::arg("text"), py::arg("source"), py::arg("world_size"),
                  py::arg("is_file") = false)
      .def_static("read_unfinished", &read_unfinished, py::arg("text"))
      .def_property_readonly("values", &values_of)
      .def_property_readonly("stage",
                             [](const PythonConfig& c) { return c.read.config.zero.stage; })
      .def_property_readonly("shards_parameters",
                             [](const PythonConfig& c) {
                               return stage_row(c.read.config.zero.stage).parameters ==
                                      Placement::sharded;
                             })
      .def_property_readonly("shards_optimizer",
                             [](const PythonConfig& c) {
                               return stage_row(c.read.config.zero.stage).optimizer_states ==
                                      Placement::sharded;
                             })
      .def_property_readonly("shards_gradients",
                             [](const PythonConfig& c) {
                               return stage_row(c.read.config.zero.stage).gradients_accumulating !=
                                      Placement::partial;
                             })
      .def_property_readonly(
          "dtype", [](const PythonConfig& c) { return name_of(c.read.config.precision.model()); })
      .def_property_readonly("auto_cast",
                             [](const PythonConfig& c) {
                               return c.read.config.precision.fp16.enabled &&
                                      c.read.config.precision.fp16.auto_cast;
                             })
      .def_property_readonly(
          "gradient_clipping",
          [](const PythonConfig& c) { return c.read.config.precision.gradient_clipping; })
      .def_property_readonly("dynamic_loss_scale",
                             [](const PythonConfig& c) {
                               return c.read.config.precision.fp16.enabled &&
                                      c.read.config.precision.fp16.loss_scale == 0.0;
                             })
      .def_property_readonly("loss_scaling", &loss_scaling_of)
      .def_property_readonly(
          "prescale_gradients",
          [](const PythonConfig& c) { return c.read.config.precision.prescale_gradients; })
      .def_property_readonly(
          "gradient_predivide_factor",
          [](const PythonConfig& c) { return c.read.config.precision.gradient_predivide_factor; })
      .def_property_readonly(
          "enable_sanity_checks",
          [](const PythonConfig& c) { return c.read.config.zero.enable_sanity_checks; })
      .def_property_readonly(
          "load_from_fp32_weights",
          [](const PythonConfig& c) { return c.read.config.checkpoint.load_from_fp32_weights; })
      .def_property_readonly(
          "load_universal",
          [](const PythonConfig& c) { return c.read.config.checkpoint.load_universal; })
      .def_property_readonly("gather_16bit_weights_on_model_save",
                             [](const PythonConfig& c) {
                               return c.read.config.zero.gather_16bit_weights_on_model_save;
                             })
      .def_property_readonly("timeout_seconds",
                             [](const PythonConfig& c) {
                               return static_cast<double>(c.read.config.comm.timeout.count()) / 1e3;
                             })
      .def_property_readonly("deterministic",
                             [](const PythonConfig& c) { return c.read.config.zero.deterministic; })
      .def_property_readonly("drop_last",
                             [](const PythonConfig& c) { return c.read.config.batch.drop_last; })
      .def_property_readonly(
          "steps_per_print",
          [](const PythonConfig& c) { return c.read.config.monitor.steps_per_print; })
      .def_property_readonly(
          "wall_clock_breakdown",
          [](const PythonConfig& c) { return c.read.config.monitor.wall_clock_breakdown; })
      .def_property_readonly(
          "host_budget", [](const PythonConfig& c) { return c.read.config.zero.host_budget_bytes; })
      .def_property_readonly(
          "memory_breakdown",
          [](const PythonConfig& c) { return c.read.config.monitor.memory_breakdown; })
      .def_property_readonly("batch", &batch_of)
      .def_property_readonly("optimizer", &optimizer_of)
      .def_property_readonly("left_at_auto", &left_at_auto_in);
}

}  // namespace zeroshard::python
