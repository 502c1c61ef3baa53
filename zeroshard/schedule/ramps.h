// WarmupLR, WarmupDecayLR and WarmupCosineLR: up from a small learning rate over num_steps, then
// constant, down a line to min_lr, or down a cosine to cos_min_ratio. LRRangeTest: up without end,
// to find where training starts to diverge.
//
// Note: a warm-up's lr is min_lr (or 0 for cosine) both at iteration -1 and, with min_lr 0, at
// iteration 0, so the first two updates change nothing. That is DeepSpeed's behaviour, kept for
// equal curves.
#pragma once

#include <cstdint>

#include "zeroshard/schedule/options.h"

namespace zeroshard {

// Where max_lr is unset, warms up to `optimizer_lr`.
double lr_at(const WarmupLrOptions& options, std::int64_t iteration, double optimizer_lr);

// Scales max_lr and never the optimizer's lr.
double lr_at(const WarmupDecayLrOptions& options, std::int64_t iteration);

// Scales `optimizer_lr`.
double lr_at(const WarmupCosineLrOptions& options, std::int64_t iteration, double optimizer_lr);

double lr_at(const LrRangeTestOptions& options, std::int64_t iteration);

}  // namespace zeroshard
