// The loss scale of fp16 training: a state machine over "did this step's gradients overflow?".
//
//   LossScaler scaler(options);                       // fp16: dynamic, or fixed; bf16, fp32: 1
//   ...backward of loss * scaler.scale()...
//   const double scale = scaler.scale();              // what these gradients were made with
//   scaler.update(overflowed);                        // at each step, skipped or not, on all ranks
//   ...unscale by `scale`, never by the scale after the update...
#pragma once

#include <cstdint>

#include "zeroshard/precision/options.h"

namespace zeroshard {

// All that a checkpoint keeps. Every rank has the same.
struct LossScalerState {
  bool dynamic = false;
  double scale = 1.0;
  std::int64_t iteration = 0;        // updates so far
  std::int64_t last_overflow = -1;   // the iteration of the last overflow
  std::int64_t hysteresis_left = 1;  // at 1 the next overflow halves the scale

  bool operator==(const LossScalerState&) const = default;
};

class LossScaler {
 public:
  explicit LossScaler(const PrecisionOptions& options);

  // The loss is multiplied by this before backward.
  double scale() const { return state_.scale; }
  bool is_dynamic() const { return state_.dynamic; }

  // One step is over. A dynamic scale halves when as many overflows as `hysteresis` came without a
  // refill, and doubles after `loss_scale_window` good steps in a row (the first time one later). A
  // StateError where it would have to fall below `min_loss_scale`.
  void update(bool overflowed);

  const LossScalerState& state() const { return state_; }
  // Goes on from a checkpoint. The options decide whether the scale is dynamic: a fixed one keeps
  // its value, and a dynamic one starts afresh after a run with a fixed one. A StateError for a
  // state that no run can have left.
  void restore(const LossScalerState& saved);

 private:
  void shrink();
  void note_good_step();

  const Fp16Options options_;
  LossScalerState state_;
};

}  // namespace zeroshard
