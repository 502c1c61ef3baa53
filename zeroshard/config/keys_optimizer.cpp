// The optimizer section and each optimizer's parameters.
#include "zeroshard/config/key_table.h"

namespace zeroshard::config {
namespace {

#define ZS_OPTIMIZER(Options, member) \
  [](Config & config) -> auto& { return std::get<Options>(*config.optimizer).member; }

// The rows every optimizer has, bound to its own options struct.
template <typename Options>
void add_rate_and_decay(KeyTable& table, std::vector<std::string> kinds) {
  table.add(option("optimizer.params.lr", ZS_OPTIMIZER(Options, lr), "learning rate", kNotNegative)
                .for_kinds(kinds));
  table.add(option("optimizer.params.weight_decay", ZS_OPTIMIZER(Options, weight_decay),
                   "weight decay", kNotNegative)
                .for_kinds(std::move(kinds)));
}

// DeepSpeed's CPU kernels can keep moments in 16 bits; ours are always fp32.
void add_state_precision(KeyTable& table, std::vector<std::string> kinds) {
  table.add(absent<bool>("optimizer.params.fp32_optimizer_states", "moments in fp32",
                         {.effect = Effect::changes_results,
                          .default_value = "true",
                          .instead = "moments are always fp32",
                          .harmless = {"true"}})
                .for_kinds(std::move(kinds)));
}

void add_adam(KeyTable& table) {
  const std::vector<std::string> both{"Adam", "AdamW"};
  add_rate_and_decay<AdamOptions>(table, both);
  table.add(
      option("optimizer.params.betas", ZS_OPTIMIZER(AdamOptions, betas), "decay of the moments")
          .for_kinds(both));
  table.add(option("optimizer.params.eps", ZS_OPTIMIZER(AdamOptions, eps),
                   "added to the denominator", kNotNegative)
                .for_kinds(both));
  table.add(option("optimizer.params.bias_correction", ZS_OPTIMIZER(AdamOptions, bias_correction),
                   "correct the moments' start at zero")
                .for_kinds(both));
  table.add(option("optimizer.params.adam_w_mode", ZS_OPTIMIZER(AdamOptions, decoupled_decay),
                   "decoupled weight decay; false: decay is added to the gradient")
                .for_kinds({"Adam"}));
  table.add(absent<bool>("optimizer.params.adam_w_mode", "decoupled weight decay",
                         {.default_value = "true",
                          .instead = "AdamW always decouples; use Adam for the other form",
                          .harmless = {"true"}})
                .for_kinds({"AdamW"}));
  table.add(absent<bool>("optimizer.params.torch_adam",
                         "torch's own defaults: weight_decay is 0.01 when decoupled and not given",
                         {.effect = Effect::detail, .default_value = "false"})
                .for_kinds(both));
  table.add(absent<bool>("optimizer.params.amsgrad", "the AMSGrad variant",
                         {.effect = Effect::changes_results,
                          .default_value = "false",
                          .instead = "AMSGrad is not available",
                          .harmless = {"false"}})
                .for_kinds({"Adam", "AdamW", "Adagrad"}));
  add_state_precision(table, both);
}

void add_others(KeyTable& table) {
  add_rate_and_decay<SgdOptions>(table, {"SGD"});
  table.add(option("optimizer.params.momentum", ZS_OPTIMIZER(SgdOptions, momentum), "momentum",
                   kNotNegative)
                .for_kinds({"SGD"}));
  table.add(option("optimizer.params.dampening", ZS_OPTIMIZER(SgdOptions, dampening),
                   "dampening of the momentum")
                .for_kinds({"SGD"}));
  table.add(option("optimizer.params.nesterov", ZS_OPTIMIZER(SgdOptions, nesterov),
                   "Nesterov momentum; needs momentum and no dampening")
                .for_kinds({"SGD"}));
  add_rate_and_decay<LionOptions>(table, {"Lion"});
  table.add(
      option("optimizer.params.betas", ZS_OPTIMIZER(LionOptions, betas), "decay of the moment")
          .for_kinds({"Lion"}));
  add_rate_and_decay<AdagradOptions>(table, {"Adagrad"});
  table.add(option("optimizer.params.eps", ZS_OPTIMIZER(AdagradOptions, eps),
                   "added to the denominator", kNotNegative)
                .for_kinds({"Adagrad"}));
  add_state_precision(table, {"Lion", "Adagrad"});
}

template <typename Options>
Kind optimizer_kind(std::string name) {
  return {"optimizer", std::move(name), [](Config& config) { config.optimizer = Options{}; }};
}

}  // namespace

void add_optimizer_keys(KeyTable& table) {
  table.add(Section{.path = "optimizer", .meaning = "the optimizer; left out: the caller's"});
  table.add(absent<std::string>("optimizer.type", "Adam, AdamW, SGD, Lion or Adagrad",
                                {.effect = Effect::supported, .default_value = "null"}));
  table.add(absent<bool>("optimizer.legacy_fusion", "old fused fp16 Adam step at stage 0",
                         {.effect = Effect::tuning,
                          .default_value = "false",
                          .instead = "there is one Adam for every stage",
                          .harmless = {"false"}}));
  table.add(Section{.path = "optimizer.params",
                    .meaning = "its parameters",
                    .unknown_keys = UnknownKeys::refused});
  add_adam(table);
  add_others(table);
  table.add(optimizer_kind<AdamOptions>("Adam"));
  table.add(optimizer_kind<AdamOptions>("AdamW"));
  table.add(optimizer_kind<SgdOptions>("SGD"));
  table.add(optimizer_kind<LionOptions>("Lion"));
  table.add(optimizer_kind<AdagradOptions>("Adagrad"));
  for (const char* name :
       {"Lamb", "OneBitAdam", "ZeroOneAdam", "OneBitLamb", "Muon", "MuAdam", "MuAdamW", "MuSGD"}) {
    table.add(Kind{"optimizer", name, {}});
  }
}

}  // namespace zeroshard::config
