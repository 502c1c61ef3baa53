#include "cli/plan_inputs.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include <fmt/format.h>

#include "cli/this_machine.h"
#include "zeroshard/base/bytes.h"
#include "zeroshard/base/cpu_limit.h"
#include "zeroshard/base/env.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/memory_room.h"
#include "zeroshard/config/batch_size.h"
#include "zeroshard/config/summary.h"
#include "zeroshard/models/planned.h"
#include "zeroshard/planner/calibration.h"
#include "zeroshard/setup/settled_config.h"

namespace zeroshard::cli {
namespace {

// Far beyond any model: parameters that pass in one step, small enough that bytes stay countable.
constexpr std::int64_t kMostParameterPasses = 100'000'000'000'000'000;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 60U;
constexpr int kUsualGpusOfHost = 8;
constexpr int kUsualUnits = 32;
constexpr std::int64_t kMostRanks = 1 << 20;

class InputReader {
 public:
  explicit InputReader(const PlanArguments& arguments) : arguments_(arguments) {}

  PlanInputs read() {
    inputs_.whole_masters = arguments_.whole_masters;
    if (!arguments_.bandwidth.empty()) {
      bandwidth_ = memory_with_unit(arguments_.bandwidth, "--bandwidth");
    }
    choose_accelerator();
    read_config();
    choose_precision();
    settle_ranks();
    read_model();
    settle_nodes();
    settle_device();
    settle_host();
    return std::move(inputs_);
  }

 private:
  void assume(std::string what) { inputs_.assumptions.push_back(std::move(what)); }

  void read_config() {
    inputs_.has_config = !arguments_.config_file.empty();
    if (!inputs_.has_config) {
      const bool on_accelerator = inputs_.facts.on_accelerator;
      inputs_.parsed =
          config::parse_config(on_accelerator ? R"({"bf16": {"enabled": true}})" : "{}");
      inputs_.read = config::read_config(inputs_.parsed);
      assume(on_accelerator ? "no --config: 16-bit parameters and gradients, fp32 master, Adam"
                            : "no --config: Adam");
      inputs_.read.config.zero.halved_masters = !arguments_.whole_masters;
      return;
    }
    const std::string& file = arguments_.config_file;
    inputs_.parsed = config::parse_config_file(file);
    inputs_.read = config::read_config(inputs_.parsed, {.world_size = arguments_.world_size});
    for (const config::Problem& problem : config::summary(inputs_.read.report)) {
      std::fprintf(stderr, "%s\n", format_problem(file, problem).c_str());
    }
    if (inputs_.read.report.has_errors()) {
      throw ConfigError({.what = "cannot plan with this config",
                         .value = file,
                         .remedy = "mend what is listed above"});
    }
    if (arguments_.whole_masters) inputs_.read.config.zero.halved_masters = false;
  }

  // Who names a GPU's memory means GPUs.
  void choose_accelerator() {
    if (arguments_.device_memory.empty()) gpus_ = gpus_for(arguments_.device);
    PlanFacts& facts = inputs_.facts;
    if (!arguments_.device.empty()) {
      facts.on_accelerator = arguments_.device == "cuda";
    } else if (!arguments_.device_memory.empty()) {
      facts.on_accelerator = true;
    } else {
      facts.on_accelerator = !gpus_.empty();
      assume(facts.on_accelerator ? "no --device: cuda, as train takes here"
                                  : "no --device: cpu, as train takes here");
    }
  }

  void choose_precision() {
    const SettledConfig settled =
        settle_config(inputs_.read, {.on_accelerator = inputs_.facts.on_accelerator});
    if (settled.chosen_precision) assume(*settled.chosen_precision);
    if (inputs_.has_config && !settled.config.optimizer) assume("no optimizer is named: Adam");
  }

  // The only number of ranks that a full batch triad allows.
  static std::optional<int> ranks_of(const BatchOptions& batch) {
    if (!batch.train || !batch.micro_per_rank || !batch.accumulation) return std::nullopt;
    const std::int64_t ranks = *batch.train / *batch.micro_per_rank / *batch.accumulation;
    return static_cast<int>(std::clamp<std::int64_t>(ranks, 1, kMostRanks));
  }

  config::BatchSizes solved(const BatchOptions& sizes) const {
    const config::SolvedBatch batch = config::solve_batch(sizes, inputs_.facts.ranks);
    if (batch.sizes) return *batch.sizes;
    if (batch.what.empty()) {  // nobody says any size
      return {.micro_per_rank = 1, .accumulation = sizes.accumulation.value_or(1)};
    }
    throw ConfigError({.what = arguments_.micro_batch
                                   ? "--micro-batch does not fit the config's batch sizes"
                                   : "the config's batch sizes do not fit",
                       .value = batch.what,
                       .remedy = batch.remedy});
  }

  void settle_ranks() {
    PlanFacts& facts = inputs_.facts;
    BatchOptions sizes = inputs_.read.config.batch;
    if (arguments_.micro_batch) sizes.micro_per_rank = arguments_.micro_batch;
    const auto from_batch = ranks_of(sizes);
    const bool here = facts.on_accelerator && arguments_.device_memory.empty();
    const int gpus = here ? ranks_for_gpus("cuda", static_cast<int>(gpus_.size())) : 1;
    const int usual = config::most_ranks(sizes, gpus);
    facts.ranks = arguments_.world_size.value_or(from_batch.value_or(usual));
    if (!arguments_.world_size) {
      assume(fmt::format("no --world-size: {} rank{}{}", facts.ranks, facts.ranks == 1 ? "" : "s",
                         from_batch     ? ", from the batch sizes"
                         : usual < gpus ? ", the most for which the batch sizes fit"
                         : usual > 1    ? ", one for each GPU here"
                                        : ""));
    }
    const config::BatchSizes batch = solved(sizes);
    facts.micro_steps = batch.accumulation;
    facts.micro_batch = batch.micro_per_rank;
    says_micro_batch_ = sizes.micro_per_rank || sizes.train;
    if (!sizes.accumulation && facts.micro_steps == 1) {
      assume(inputs_.has_config ? "no accumulation is given: one micro-step per step"
                                : "one micro-step per step");
    }
  }

  void read_model() {
    if (!arguments_.model.empty()) {
      inputs_.model =
          read_planned_model(arguments_.model, {.lora_rank = arguments_.lora_rank,
                                                .checkpoint_activations = arguments_.checkpoint,
                                                .sequence = arguments_.sequence.value_or(0)});
    } else {
      inputs_.model = counted();
    }
    inputs_.facts.sequence = inputs_.model->sequence();
    for (std::string& what : inputs_.model->assumptions()) assume(std::move(what));
    refuse_uncountable(inputs_.model->parameters());
    const bool counts = inputs_.model->activations({}).has_value();
    if (counts && !says_micro_batch_) assume("no --micro-batch: 1 sample");
    const bool fixed = arguments_.sequence || arguments_.model.starts_with("gpt");
    if (counts && !fixed && inputs_.facts.sequence > 1) {
      assume(fmt::format("no --seq: {} tokens, the model's longest", inputs_.facts.sequence));
    }
  }

  void refuse_uncountable(std::int64_t parameters) const {
    const std::int64_t most = kMostParameterPasses / inputs_.facts.micro_steps;
    if (parameters <= most) return;
    throw ConfigError({.what = arguments_.params.empty() ? "the model's size is out of range"
                                                         : "--params is out of range",
                       .value = human_count(parameters),
                       .remedy = "give at most " + human_count(most)});
  }

  std::unique_ptr<PlannedModel> counted() {
    const std::string& text = arguments_.params;
    if (text.empty()) {
      throw ConfigError({.what = "there is no model to plan for",
                         .value = "",
                         .remedy = "give --model gpt:..., --model FOLDER, or --params 7.5e9"});
    }
    if (arguments_.lora_rank > 0) {
      throw ConfigError({.what = "adapters need a model whose shapes are known",
                         .value = "--lora-rank with --params",
                         .remedy = "give --model FOLDER"});
    }
    const int units = arguments_.units.value_or(kUsualUnits);
    const std::int64_t count = parse_count(text, "--params");
    if (count == 0) {
      throw ConfigError({.what = "a model has parameters",
                         .value = "--params " + text,
                         .remedy = "give their number, such as 124M"});
    }
    refuse_uncountable(count);
    assume(fmt::format("a model of {} equal units, which sizes the buffers (--layers)", units));
    if (arguments_.sequence) {
      assume("the activations of a transformer with so many parameters and layers");
    }
    return counted_model(count, {.units = units,
                                 .sequence = arguments_.sequence.value_or(0),
                                 .checkpoint_activations = arguments_.checkpoint});
  }

  void settle_nodes() {
    PlanFacts& facts = inputs_.facts;
    const int usual = facts.on_accelerator ? std::min(kUsualGpusOfHost, facts.ranks) : facts.ranks;
    facts.ranks_per_node = std::min(arguments_.ranks_per_node.value_or(usual), facts.ranks);
    if (!arguments_.ranks_per_node && facts.ranks > facts.ranks_per_node) {
      assume(fmt::format("no --ranks-per-node: {}", facts.ranks_per_node));
    }
    facts.nics_per_node = arguments_.nics_per_node.value_or(0);
    if (!arguments_.nics_per_node && facts.ranks > facts.ranks_per_node) {
      assume("no --nics-per-node: a network card for each rank");
    }
    facts.sums = assumed_sums(inputs_.read.config, facts);
    if (facts.sums != DeviceSums::none) assume("NCCL adds up what ranks send, on the devices");
    const RankThreads threads =
        rank_threads(usable_cpus(), facts.ranks_per_node, env_integer(EnvVar::kOmpThreads));
    facts.has_idle_cores = threads.leave_idle_cores;
    threads_ = threads.threads;
  }

  void settle_device() {
    const auto measured =
        Calibration::load(calibration_file())
            .find(host_name(), inputs_.facts.on_accelerator, inputs_.facts.ranks_per_node);
    if (inputs_.facts.on_accelerator) {
      settle_accelerator(measured);
    } else {
      inputs_.device_name = "this CPU";
      inputs_.facts.rates = assumed_cpu_rates(threads_);
      if (measured) take(*measured);
      if (!arguments_.device_memory.empty()) {
        inputs_.limits.device = memory_with_unit(arguments_.device_memory, "--device-memory");
      }
    }
    take_bandwidth();
  }

  void settle_accelerator(const std::optional<MachineMeasurement>& measured) {
    const std::string& asked = arguments_.device_memory;
    const bool here = asked.empty() && !gpus_.empty();
    if (is_size(asked)) {
      take_size(memory_with_unit(asked, "--device-memory"));
    } else if (const auto known = find_device(here ? gpus_.front().name : asked)) {
      inputs_.device_name = known->name;
      inputs_.limits.device = known->memory_bytes;
      inputs_.facts.rates = assumed_rates(*known);
    } else if (!asked.empty()) {
      inputs_.limits.device = memory_with_unit(asked, "--device-memory");  // which refuses it
    }
    if (here) take_driver(measured);
    if (inputs_.limits.device) return;
    assume(here ? "the GPU here is not known, and its driver does not say its memory: there is no "
                  "limit, so no tree (--device-memory)"
                : "no --device-memory, and no GPU is here: there is no limit, so no tree, and no "
                  "time of a step");
  }

  // A size alone has no rates.
  void take_size(std::int64_t bytes) {
    inputs_.limits.device = bytes;
    const KnownDevice& like = nearest_device(bytes);
    inputs_.facts.rates = assumed_rates(like);
    assume(fmt::format("no device is named: the rates of a {}, whose memory comes nearest",
                       like.name));
  }

  // What the GPU itself says of its memory goes before what its name says.
  void take_driver(const std::optional<MachineMeasurement>& measured) {
    auto total = gpus_.front().memory_bytes;
    if (measured && measured->device_memory_bytes > 0) total = measured->device_memory_bytes;
    if (total && inputs_.facts.rates) inputs_.limits.device = total;
    if (total && !inputs_.facts.rates) take_size(*total);
    if (measured && inputs_.facts.rates) take(*measured);
  }

  // "24GiB"; "4090" is a device.
  static bool is_size(const std::string& text) {
    const auto quantity = split_quantity(text);
    if (!quantity || quantity->unit.empty()) return false;
    try {
      return parse_bytes(text) > 0;
    } catch (const ConfigError&) {
      return false;
    }
  }

  void take(const MachineMeasurement& measured) {
    inputs_.facts.rates = with_measured(inputs_.facts.rates.value_or(Rates{}), measured.rates);
    inputs_.rates_source =
        fmt::format("measured here on {} with {} rank{} at work, or assumed", measured.date,
                    measured.ranks, measured.ranks == 1 ? "" : "s");
  }

  void take_bandwidth() {
    if (!bandwidth_) return;
    if (!inputs_.facts.rates) inputs_.facts.rates = assumed_latencies();
    const Rate given{.value = static_cast<double>(*bandwidth_), .given = true};
    inputs_.facts.rates->near_bytes = inputs_.facts.rates->far_bytes = given;
  }

  static std::int64_t memory_with_unit(const std::string& text, const char* option) {
    const auto quantity = split_quantity(text);
    if (quantity && quantity->unit.empty()) {
      throw ConfigError({.what = std::string(option) + " has no unit",
                         .value = text,
                         .remedy = "write \"" + text + "GiB\", or what is meant"});
    }
    if (!quantity && std::string_view(option) == "--device-memory" && !text.starts_with('-')) {
      std::string names;
      for (const KnownDevice& device : known_devices()) {
        names += (names.empty() ? "" : ", ") + std::string(device.name);
      }
      throw ConfigError({.what = "--device-memory is no size and no device that is known",
                         .value = text,
                         .remedy = "give a size such as 24GiB, or one of " + names});
    }
    const std::int64_t bytes = parse_bytes(text, option);
    if (bytes > kMostBytes) {
      throw ConfigError({.what = std::string(option) + " is out of range",
                         .value = text,
                         .remedy = "give at most " + human_bytes(kMostBytes)});
    }
    if (bytes > 0) return bytes;
    throw ConfigError({.what = std::string(option) + " is nothing",
                       .value = text,
                       .remedy = "give a size such as 24GiB"});
  }

  // Ranks share what their host has. A plan for this machine knows its host's memory, too.
  void settle_host() {
    MemoryLimits& limits = inputs_.limits;
    const int sharing = inputs_.facts.ranks_per_node;
    if (!arguments_.host_memory.empty()) {
      const std::int64_t bytes = memory_with_unit(arguments_.host_memory, "--host-memory");
      const bool shared = !inputs_.facts.on_accelerator && !limits.device;
      (shared ? limits.both : limits.host) = bytes / sharing;
      return;
    }
    const bool here = inputs_.facts.on_accelerator
                          ? !gpus_.empty() && arguments_.device_memory.empty()
                          : !limits.device.has_value();
    if (!here) return;
    if (const auto room = memory_room()) {
      (inputs_.facts.on_accelerator ? limits.host : limits.both) = room->bytes / sharing;
      assume(fmt::format("no --host-memory: {}, which {} leaves", human_bytes(room->bytes),
                         room->set_by));
    }
  }

  const PlanArguments& arguments_;
  PlanInputs inputs_;
  std::vector<LocalGpu> gpus_;
  std::optional<std::int64_t> bandwidth_;
  bool says_micro_batch_ = false;
  int threads_ = 1;
};

}  // namespace

PlanInputs read_plan_inputs(const PlanArguments& arguments) {
  return InputReader(arguments).read();
}

PlanInputs read_plan_inputs(PlanArguments arguments, const std::string& config_file) {
  arguments.config_file = config_file;
  return InputReader(arguments).read();
}

}  // namespace zeroshard::cli
