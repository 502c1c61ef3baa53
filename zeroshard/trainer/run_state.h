// Where a training run is, beside its weights and moments: what a checkpoint's `run` says of it.
#pragma once

#include <cstdint>
#include <optional>

#include "zeroshard/checkpoint/manifest.h"
#include "zeroshard/precision/loss_scaler.h"
#include "zeroshard/trainer/batches.h"

namespace zeroshard {

struct RunState {
  std::int64_t step = 0;     // steps done, skipped ones included
  std::int64_t updates = 0;  // of these, such as have changed weights
  DataPosition data = {};
  std::int64_t sample_count = 0;  // of the data
  LossScalerState scaler = {};
  std::optional<double> eval_loss = {};       // of these weights
  std::optional<double> best_eval_loss = {};  // so far

  bool operator==(const RunState&) const = default;
};

RunNumbers numbers_of(const RunState& state);

// What the numbers do not say is as at the beginning; `seed` is for data that was never looked at.
RunState run_state_of(const RunNumbers& numbers, std::uint64_t seed);

}  // namespace zeroshard
