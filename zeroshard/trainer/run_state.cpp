#include "zeroshard/trainer/run_state.h"

#include <cmath>
#include <string>

namespace zeroshard {
namespace {

// A loss that is no number is none: JSON has no word for it, and nothing is to be compared with it.
void set_finite(RunNumbers& run, const std::string& name, const std::optional<double>& loss) {
  if (loss && std::isfinite(*loss)) run.set(name, *loss);
}

}  // namespace

RunNumbers numbers_of(const RunState& state) {
  RunNumbers run;
  run.set("step", state.step);
  run.set("updates", state.updates);
  run.set("samples", state.data.samples);
  run.set("data_samples", state.data.samples);
  run.set("data_seed", state.data.seed);
  run.set("data_count", state.sample_count);
  run.set("loss_scale", state.scaler.scale);
  run.set("loss_scale_dynamic", std::int64_t{state.scaler.dynamic ? 1 : 0});
  run.set("loss_scale_iteration", state.scaler.iteration);
  run.set("loss_scale_last_overflow", state.scaler.last_overflow);
  run.set("loss_scale_hysteresis_left", state.scaler.hysteresis_left);
  set_finite(run, "eval_loss", state.eval_loss);
  set_finite(run, "best_eval_loss", state.best_eval_loss);
  return run;
}

RunState run_state_of(const RunNumbers& numbers, std::uint64_t seed) {
  const auto whole = [&](std::string_view name, std::int64_t missing) {
    return numbers.whole(name).value_or(missing);
  };
  RunState state;
  state.step = whole("step", 0);
  state.updates = whole("updates", state.step);
  state.data.samples = whole("data_samples", whole("samples", 0));
  state.data.seed = numbers.unsigned_whole("data_seed").value_or(seed);
  state.sample_count = whole("data_count", 0);
  const LossScalerState fresh;
  state.scaler.dynamic = whole("loss_scale_dynamic", 0) != 0;
  state.scaler.scale = numbers.real("loss_scale").value_or(fresh.scale);
  state.scaler.iteration = whole("loss_scale_iteration", fresh.iteration);
  state.scaler.last_overflow = whole("loss_scale_last_overflow", fresh.last_overflow);
  state.scaler.hysteresis_left = whole("loss_scale_hysteresis_left", fresh.hysteresis_left);
  state.eval_loss = numbers.real("eval_loss");
  state.best_eval_loss = numbers.real("best_eval_loss");
  return state;
}

}  // namespace zeroshard
