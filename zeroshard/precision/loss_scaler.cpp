#include "zeroshard/precision/loss_scaler.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

LossScalerState initial_state(const PrecisionOptions& options) {
  const Fp16Options& fp16 = options.fp16;
  if (!fp16.enabled) return {};
  if (fp16.loss_scale != 0.0) return {.scale = fp16.loss_scale};
  return {.dynamic = true,
          .scale = std::ldexp(1.0, static_cast<int>(fp16.initial_scale_power)),
          .hysteresis_left = fp16.hysteresis};
}

bool is_possible(const LossScalerState& state) {
  return std::isfinite(state.scale) && state.scale > 0.0 && state.iteration >= 0 &&
         state.last_overflow >= -1 && state.last_overflow < state.iteration &&
         state.hysteresis_left >= 1;
}

}  // namespace

LossScaler::LossScaler(const PrecisionOptions& options)
    : options_(options.fp16), state_(initial_state(options)) {
  ZS_CHECK_GT(state_.scale, 0.0, "loss scale");
  if (!state_.dynamic) return;
  ZS_CHECK_GE(options_.loss_scale_window, 1, "dynamic loss scale");
  ZS_CHECK_GE(options_.hysteresis, 1, "dynamic loss scale");
}

void LossScaler::update(bool overflowed) {
  if (state_.dynamic && overflowed) shrink();
  if (state_.dynamic && !overflowed) note_good_step();
  if (overflowed) state_.last_overflow = state_.iteration;
  ++state_.iteration;
}

void LossScaler::shrink() {
  if (state_.hysteresis_left > 1) {
    --state_.hysteresis_left;
    return;
  }
  const auto least = static_cast<double>(options_.min_loss_scale);
  if (state_.scale <= least) {
    throw StateError(
        {.what = "gradients overflow in fp16 though the loss scale is at its minimum",
         .value = fmt::format("{} after {} steps", state_.scale, state_.iteration + 1),
         .remedy = "look for NaN or infinity in the loss and the data, lower the learning rate, "
                   "lower fp16.min_loss_scale, or train in bf16"});
  }
  state_.scale = std::max(state_.scale / 2.0, least);
}

void LossScaler::note_good_step() {
  if (options_.consecutive_hysteresis) state_.hysteresis_left = options_.hysteresis;
  const std::int64_t good_before = state_.iteration - state_.last_overflow - 1;
  if (good_before == 0 || good_before % options_.loss_scale_window != 0) return;
  state_.hysteresis_left = options_.hysteresis;
  state_.scale *= 2.0;
}

void LossScaler::restore(const LossScalerState& saved) {
  if (!is_possible(saved)) {
    throw StateError({.what = "the saved loss scaler makes no sense",
                      .value = fmt::format(
                          "scale {}, iteration {}, last overflow {}, hysteresis {}", saved.scale,
                          saved.iteration, saved.last_overflow, saved.hysteresis_left),
                      .remedy = "load another checkpoint"});
  }
  if (!saved.dynamic || !state_.dynamic) return;
  state_ = saved;
  // The options may have changed meanwhile.
  state_.hysteresis_left = std::min(saved.hysteresis_left, options_.hysteresis);
  state_.scale = std::max(saved.scale, static_cast<double>(options_.min_loss_scale));
}

}  // namespace zeroshard
