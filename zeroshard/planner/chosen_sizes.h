// How gathers and reductions are cut where nobody says it: what docs/scaling.md derives. Every door
// and the plan ask here, and all ranks must come to the same sizes, so these take what all of them
// know alike: no rate that one host has measured, but those of the kind of device.
//
//   chosen_bucket_numel({.parameters = 7'000'000'000,
//                        .topology = {.ranks = 64, .ranks_per_node = 8},
//                        .accelerator = true,
//                        .overlaps = true,
//                        .travels = DType::bf16});
#pragma once

#include <cstdint>
#include <optional>

#include "zeroshard/base/dtype.h"
#include "zeroshard/planner/collective_time.h"

namespace zeroshard {

struct SizeFacts {
  std::int64_t parameters = 0;
  Topology topology = {};
  bool accelerator = false;
  bool overlaps = false;  // communication runs beside computation
  DType travels = DType::fp32;
};

// Of a bucket of gradients, in elements. What of the reductions nothing hides is the last bucket;
// what buckets cost is a latency each. With P elements in buckets of n,
//   n w / bandwidth + alpha P / n   is least for   n = sqrt(alpha P bandwidth / w).
// Where nothing is hidden anyway, only the latencies count, and memory is the limit. In both cases
// a bucket is at most a part of the model: an eighth, and a quarter on rings of GPUs.
std::int64_t chosen_bucket_numel(const SizeFacts& facts);

// Of what is gathered ahead, beside buckets of `bucket_numel`. The next unit, whole, keeps the
// network busy: gathers go one after the other. But in backward a gather may have to wait for the
// reduction of a bucket, and meanwhile the device needs as much to work on: so at least a bucket.
// For a model of small units an eighth of it, so that uneven ones do not wait for each other.
std::int64_t chosen_prefetch_numel(const SizeFacts& facts, std::int64_t bucket_numel);

// How much may be gathered at a time, such that two units of the largest models that one gathers
// whole are: where the second does not fit, nothing is ever ahead. Nothing where the usual limit
// stands: on CPUs, without overlap, with one rank.
std::optional<std::int64_t> chosen_live_numel(const SizeFacts& facts);

}  // namespace zeroshard
