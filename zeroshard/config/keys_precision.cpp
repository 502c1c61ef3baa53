// fp16, bf16 and the dtypes around them.
#include "zeroshard/config/key_table.h"

namespace zeroshard::config {
namespace {

// Older versions of DeepSpeed took fractions here, and files have them: a scale below 1 helps
// nobody, so that such a limit is as good as 1.
Key min_loss_scale() {
  Key key = option("fp16.min_loss_scale", ZS_FIELD(precision.fp16.min_loss_scale),
                   "the dynamic scale never falls below", kNotNegative);
  key.store = [whole = key.store](const Node& node, Coercion coercion, Config& config) -> Stored {
    const auto number = ValueType<double>::parse(node, coercion).value;
    if (!number || *number <= 0.0 || *number >= 1.0) return whole(node, coercion, config);
    config.precision.fp16.min_loss_scale = 1;
    return {std::nullopt, "read as 1"};
  };
  return key;
}

void add_fp16(KeyTable& table) {
  table.add(Section{.path = "fp16",
                    .meaning = "half precision with loss scaling",
                    .unknown_keys = UnknownKeys::refused});
  table.add(option("fp16.enabled", ZS_FIELD(precision.fp16.enabled),
                   "train in fp16; excludes bf16.enabled"));
  table.add(option("fp16.auto_cast", ZS_FIELD(precision.fp16.auto_cast),
                   "cast floating inputs of forward to fp16"));
  table.add(option("fp16.loss_scale", ZS_FIELD(precision.fp16.loss_scale),
                   "0: dynamic; above: that scale, for the whole run", kNotNegative));
  table.add(option("fp16.initial_scale_power", ZS_FIELD(precision.fp16.initial_scale_power),
                   "the dynamic scale starts at 2 to this power", {.min = 0, .max = 127}));
  table.add(option("fp16.loss_scale_window", ZS_FIELD(precision.fp16.loss_scale_window),
                   "good steps before the scale doubles", kCountOrZero));
  table.add(option("fp16.hysteresis", ZS_FIELD(precision.fp16.hysteresis),
                   "overflows before the scale halves", kAtLeastOne));
  table.add(option("fp16.consecutive_hysteresis", ZS_FIELD(precision.fp16.consecutive_hysteresis),
                   "a good step refills the hysteresis"));
  table.add(min_loss_scale());
  table.add(absent<bool>("fp16.fp16_master_weights_and_grads", "masters and gradients in fp16",
                         {.effect = Effect::changes_results,
                          .default_value = "false",
                          .instead = "masters are always fp32",
                          .harmless = {"false"}}));
}

void add_bf16(KeyTable& table) {
  table.add(Section{.path = "bf16",
                    .meaning = "bfloat16, without loss scaling",
                    .unknown_keys = UnknownKeys::refused,
                    .old_spelling = "bfloat16"});
  table.add(option("bf16.enabled", ZS_FIELD(precision.bf16.enabled),
                   "train in bf16; excludes fp16.enabled"));
  table.add(option("bf16.check_grad_overflow", ZS_FIELD(precision.bf16.check_grad_overflow),
                   "skip a step whose gradients are not finite"));
  table.add(absent<bool>("bf16.immediate_grad_update", "accumulate inside the gradient hook",
                         {.effect = Effect::tuning,
                          .default_value = "false",
                          .instead = "gradients are always accumulated as they arrive",
                          .harmless = {"false"}}));
  table.add(absent<bool>("bf16.bf16_master_weights_and_grads", "masters and gradients in bf16",
                         {.effect = Effect::changes_results,
                          .default_value = "false",
                          .instead = "masters are always fp32",
                          .harmless = {"false"}}));
  table.add(absent<bool>("bf16.bf16_optimizer_states", "moments in bf16",
                         {.effect = Effect::changes_results,
                          .default_value = "false",
                          .instead = "moments are always fp32",
                          .harmless = {"false"}}));
}

void add_data_types(KeyTable& table) {
  table.add(Section{.path = "data_types", .meaning = "dtypes beside the model's"});
  table.add(option("data_types.grad_accum_dtype", ZS_FIELD(precision.grad_accum_dtype),
                   "dtype of local gradients between micro-steps; null: the model's"));
  table.add(absent<DType>("data_types.param_dtype", "must agree with fp16.enabled and bf16.enabled",
                          {.effect = Effect::detail, .default_value = "null"}));
  table.add(absent<DType>("data_types.buffer_dtype", "cast the modules' floating buffers",
                          {.effect = Effect::changes_results,
                           .default_value = "null",
                           .instead = "buffers keep their dtype; cast them in the model"}));
}

}  // namespace

void add_precision_keys(KeyTable& table) {
  add_fp16(table);
  add_bf16(table);
  add_data_types(table);
  table.add(Section{.path = "torch_autocast",
                    .meaning = "forward under torch's autocast",
                    .unknown_keys = UnknownKeys::free});
  table.add(absent<bool>("torch_autocast.enabled", "run forward under autocast",
                         {.effect = Effect::changes_results,
                          .default_value = "false",
                          .instead = "use bf16.enabled or fp16.enabled",
                          .harmless = {"false"}}));
  table.add(absent<DType>("torch_autocast.dtype", "autocast's dtype",
                          {.effect = Effect::detail, .default_value = "null"}));
  table.add(absent<Anything>("torch_autocast.lower_precision_safe_modules",
                             "classes whose parameters travel in that dtype",
                             {.effect = Effect::detail, .default_value = "null"}));
  table.add(Section{
      .path = "amp", .meaning = "Apex AMP, passed through", .unknown_keys = UnknownKeys::free});
  table.add(absent<bool>("amp.enabled", "train under Apex AMP",
                         {.effect = Effect::changes_results,
                          .default_value = "false",
                          .instead = "use bf16.enabled or fp16.enabled",
                          .harmless = {"false"}}));
}

}  // namespace zeroshard::config
