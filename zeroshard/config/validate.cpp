#include "zeroshard/config/validate.h"

#include <utility>

#include <fmt/format.h>

#include "zeroshard/config/batch_size.h"
#include "zeroshard/config/value_type.h"
#include "zeroshard/layout/placement.h"

namespace zeroshard::config {
namespace {

const Origin* given(const Provenance& provenance, std::string_view key) {
  const auto found = provenance.find(key);
  return found != provenance.end() && found->second.source != Source::automatic ? &found->second
                                                                                : nullptr;
}

class Validator {
 public:
  Validator(const Config& config, const Provenance& provenance, Report& report)
      : config_(config), provenance_(provenance), report_(report) {}

  void run(std::optional<int> world_size) {
    check_batch_sizes(world_size);
    check_precision();
    check_offload();
    check_optimizer();
    check_scheduler();
    check_vocabulary();
  }

 private:
  void check_batch_sizes(std::optional<int> world_size) {
    SolvedBatch solved = check_batch(config_.batch);
    if (world_size && solved.what.empty()) solved = solve_batch(config_.batch, *world_size);
    if (!solved.what.empty()) {
      complain(Severity::error, Code::contradiction,
               config_.batch.train ? "train_batch_size" : "train_micro_batch_size_per_gpu",
               solved.what, solved.remedy);
    }
  }

  void check_precision() {
    if (config_.precision.fp16.enabled && config_.precision.bf16.enabled) {
      complain(Severity::error, Code::contradiction, "bf16.enabled", "fp16.enabled is true as well",
               "keep one of the two");
    }
    check_loss_scale();
    const Origin* wanted = given(provenance_, "data_types.param_dtype");
    const std::string model = fmt::format("\"{}\"", name_of(config_.precision.model()));
    if (wanted == nullptr || is_auto("fp16.enabled") || is_auto("bf16.enabled")) return;
    const auto dtype = parse_float_dtype(wanted->value.substr(1, wanted->value.size() - 2));
    if (dtype != config_.precision.model()) {
      complain(Severity::error, Code::contradiction, "data_types.param_dtype",
               fmt::format("fp16.enabled and bf16.enabled make it {}", model),
               "make them agree, or leave it out");
    }
  }

  // DeepSpeed minds these only where a dynamic scale uses them.
  void check_loss_scale() {
    const Fp16Options& fp16 = config_.precision.fp16;
    if (!fp16.enabled || fp16.loss_scale != 0.0) return;
    for (const auto& [key, value] : {std::pair{"fp16.loss_scale_window", fp16.loss_scale_window},
                                     std::pair{"fp16.min_loss_scale", fp16.min_loss_scale}}) {
      if (value < 1) {
        complain(Severity::error, Code::out_of_range, key, "expected an integer of at least 1",
                 "or give a static fp16.loss_scale");
      }
    }
  }

  void check_offload() {
    warn_of_disk("zero_optimization.offload_optimizer.device", config_.offload.optimizer);
    warn_of_disk("zero_optimization.offload_param.device", config_.offload.parameters);
    check_offloaded_parameters();
    check_budgets();
    check_delayed_update();
  }

  void warn_of_disk(const char* key, Tier tier) {
    if (tier != Tier::disk) return;
    complain(Severity::warning, Code::not_yet, key, "offload to disk is not in this version yet",
             "the host's memory is used instead, as with \"cpu\", with the same results");
  }

  // A budget is what decides, and is there to be kept; a ratio beside it would say something else.
  void check_budgets() {
    const ZeroOptions& zero = config_.zero;
    const char* ratio = "zero_optimization.offload_optimizer.ratio";
    if (zero.device_budget_bytes && given(provenance_, ratio)) {
      complain(Severity::warning, Code::no_effect, ratio,
               "no effect beside zeroshard.device_budget, which decides how much leaves the device",
               "keep one of the two");
    }
    if (zero.host_budget_bytes && !may_use_host()) {
      complain(Severity::warning, Code::no_effect, "zeroshard.host_budget",
               "nothing is put on the host, so it only decides how checkpoints are saved",
               "add zeroshard.device_budget or zero_optimization.offload_optimizer");
    }
  }

  bool may_use_host() const {
    return config_.zero.device_budget_bytes || config_.offload.optimizer != Tier::device ||
           config_.offload.parameters != Tier::device ||
           is_auto("zero_optimization.offload_optimizer.device") ||
           is_auto("zero_optimization.offload_param.device");
  }

  void check_delayed_update() {
    if (!config_.zero.delayed_update) return;
    if (!may_use_host()) {
      return complain(Severity::warning, Code::no_effect, "zeroshard.delayed_update",
                      "no effect: no update is done on the host",
                      "add zero_optimization.offload_optimizer, or leave it out");
    }
    if (config_.offload.parameters != Tier::device) {
      return complain(Severity::warning, Code::no_effect, "zeroshard.delayed_update",
                      "no effect on units whose parameters are on the host: their updates write "
                      "the parameters themselves",
                      "leave it out, or leave out zero_optimization.offload_param");
    }
    complain(Severity::warning, Code::changes_results, "zeroshard.delayed_update",
             "results differ from those of every other setting: each step computes with the "
             "parameters of one update before",
             "leave it out to train exactly as without offload");
  }

  void check_offloaded_parameters() {
    const bool sharded = stage_row(config_.zero.stage).parameters == Placement::sharded;
    const char* device = "zero_optimization.offload_param.device";
    const char* key = given(provenance_, device) ? device : "zero_optimization.cpu_offload_param";
    const bool asked = config_.offload.parameters != Tier::device;
    if (!asked || sharded || is_auto("zero_optimization.stage")) return;
    complain(Severity::warning, Code::no_effect, key,
             fmt::format("no effect at stage {}", config_.zero.stage),
             "parameters are offloaded where they are sharded: at stage 3");
  }

  void check_optimizer() {
    if (!config_.optimizer) return;
    const auto* sgd = std::get_if<SgdOptions>(&*config_.optimizer);
    if (is_auto("optimizer.params.momentum")) return;
    if (sgd != nullptr && sgd->nesterov && (sgd->momentum == 0.0 || sgd->dampening != 0.0)) {
      complain(Severity::error, Code::contradiction, "optimizer.params.nesterov",
               fmt::format("momentum is {} and dampening {}", sgd->momentum, sgd->dampening),
               "give a momentum above 0 and no dampening");
    }
  }

  void check_scheduler() {
    const auto warn_if_short = [&](std::int64_t total, std::int64_t warmup) {
      if (!given(provenance_, "scheduler.params.total_num_steps")) return;
      if (provenance_.find("scheduler.params.warmup_num_steps") != provenance_.end() &&
          !given(provenance_, "scheduler.params.warmup_num_steps")) {
        return;
      }
      if (total < warmup) {
        complain(Severity::warning, Code::contradiction, "scheduler.params.total_num_steps",
                 fmt::format("less than the {} steps of the warm-up", warmup),
                 "the rate will not decay gradually; raise it or warm up for less");
      }
    };
    if (!config_.scheduler) return;
    const Origin* shape = given(provenance_, "scheduler.params.warmup_type");
    if (shape != nullptr && shape->value != "\"log\"" && shape->value != "\"linear\"") {
      complain(Severity::warning, Code::out_of_range, "scheduler.params.warmup_type",
               "read as \"log\", as DeepSpeed does", "write \"log\" or \"linear\"");
    }
    if (const auto* decay = std::get_if<WarmupDecayLrOptions>(&*config_.scheduler)) {
      warn_if_short(decay->total_num_steps, decay->num_steps);
    } else if (const auto* cosine = std::get_if<WarmupCosineLrOptions>(&*config_.scheduler)) {
      warn_if_short(cosine->total_num_steps, cosine->num_steps);
    } else if (const auto* cycle = std::get_if<OneCycleOptions>(&*config_.scheduler)) {
      check_one_cycle(*cycle);
    }
  }

  // Both are DeepSpeed's formulas; what they do is rarely meant.
  void check_one_cycle(const OneCycleOptions& cycle) {
    if (cycle.decay_momentum_rate > 0 && cycle.decay_step_size > 0) {
      complain(Severity::warning, Code::contradiction, "scheduler.params.decay_mom_rate",
               "the first beta grows past 1 after the cycle", "set it to 0");
    }
    if (cycle.second_step_size == 0) {
      complain(Severity::warning, Code::contradiction, "scheduler.params.cycle_second_step_size",
               "the rate never reaches cycle_max_lr", "give the fall some steps");
    }
  }

  void check_vocabulary() {
    const Origin* size = given(provenance_, "vocabulary_size");
    const auto value = size ? whole_number(size->value) : std::nullopt;
    if (value && *value % 8 != 0) {
      complain(Severity::warning, Code::contradiction, "vocabulary_size", "not a multiple of 8",
               "matrix units work best on multiples of 8");
    }
  }

  bool is_auto(std::string_view key) const { return left_at_auto(provenance_, key); }

  void complain(Severity severity, Code code, std::string_view key, std::string what,
                std::string remedy) {
    Problem problem{.severity = severity,
                    .code = code,
                    .key = std::string(key),
                    .what = std::move(what),
                    .remedy = std::move(remedy)};
    if (const Origin* origin = given(provenance_, key)) {
      problem.key = origin->written;
      problem.value = origin->value;
      problem.at = origin->at;
    }
    report_.add(std::move(problem));
  }

  const Config& config_;
  const Provenance& provenance_;
  Report& report_;
};

}  // namespace

void validate(const Config& config, const Provenance& provenance, std::optional<int> world_size,
              Report& report) {
  Validator(config, provenance, report).run(world_size);
}

void settle(Config& config, const Provenance& provenance) {
  if (config.offload.optimizer == Tier::disk) config.offload.optimizer = Tier::host;
  if (config.offload.parameters == Tier::disk) config.offload.parameters = Tier::host;
  const Origin* torch_adam = given(provenance, "optimizer.params.torch_adam");
  const bool decay_given = provenance.find("optimizer.params.weight_decay") != provenance.end();
  // What is neither of these is true, as text is to Python.
  const bool wanted =
      torch_adam != nullptr && torch_adam->value != "false" && torch_adam->value != "0";
  if (wanted && !decay_given && config.optimizer) {
    auto* adam = std::get_if<AdamOptions>(&*config.optimizer);
    constexpr double kTorchAdamWDecay = 0.01;
    if (adam != nullptr && adam->decoupled_decay) adam->weight_decay = kTorchAdamWDecay;
  }
}

}  // namespace zeroshard::config
