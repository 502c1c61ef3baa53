#include "zeroshard/planner/chosen_sizes.h"

#include <algorithm>
#include <cmath>

#include "zeroshard/base/check.h"

namespace zeroshard {
namespace {

// A part of the model, so that some gradients travel, and their memory is free again, while others
// are made.
constexpr std::int64_t kParts = 8;
constexpr std::int64_t kPartsOfRing = 4;
// Below it the time goes into messages and not into bytes, whatever the network.
constexpr std::int64_t kLeastNumel = 1'000'000;
// Above it a CPU's latency is a thousandth of what a bucket travels; and one unit of a model that
// has such units is ahead in any case.
constexpr std::int64_t kMostNumel = 50'000'000;
// Rings of hundreds of GPUs have latencies for which larger buckets pay, as long as units are
// small. Two of this size take 1 GB in 16 bits; twice as much gains 6 % of a step of 1.3 billion
// parameters on 512, and less elsewhere.
constexpr std::int64_t kMostOfRingNumel = 250'000'000;

// Two blocks of a dense model of 200 billion parameters; 8 GB in 16 bits, if they are that large.
constexpr std::int64_t kMostLiveNumel = 4'000'000'000;

constexpr const char* kUsualGpu = "H100";

Rates usual_rates(bool accelerator) {
  if (!accelerator) return assumed_cpu_rates(1);
  const auto gpu = find_device(kUsualGpu);
  ZS_CHECK(gpu.has_value(), "{} is not among the known devices", kUsualGpu);
  return assumed_rates(*gpu);
}

bool is_ring(const SizeFacts& facts) { return facts.accelerator && facts.topology.ranks > 1; }

std::int64_t part_of(std::int64_t parameters) {
  return std::clamp(parameters / kParts, kLeastNumel, kMostNumel);
}

// The most that a bucket or what is ahead may be.
std::int64_t largest_part(const SizeFacts& facts) {
  if (!is_ring(facts)) return part_of(facts.parameters);
  return std::clamp(facts.parameters / kPartsOfRing, kLeastNumel, kMostOfRingNumel);
}

// Least sum of what the last bucket travels and the latencies of all.
double best_numel(const SizeFacts& facts) {
  const Rates rates = usual_rates(facts.accelerator);
  const Route route = reduce_route(facts.accelerator, /*deterministic=*/false);
  const double elements_per_second =
      bytes_per_second(facts.topology, rates, route) / static_cast<double>(bytes_of(facts.travels));
  return std::sqrt(latency_seconds(facts.topology, rates, route) *
                   static_cast<double>(facts.parameters) * elements_per_second);
}

}  // namespace

std::int64_t chosen_bucket_numel(const SizeFacts& facts) {
  const std::int64_t part = largest_part(facts);
  if (!facts.overlaps || facts.topology.ranks == 1) return part;
  return std::clamp(static_cast<std::int64_t>(best_numel(facts)), kLeastNumel, part);
}

std::int64_t chosen_prefetch_numel(const SizeFacts& facts, std::int64_t bucket_numel) {
  if (!facts.overlaps) return 0;
  return std::clamp(bucket_numel, part_of(facts.parameters), largest_part(facts));
}

std::optional<std::int64_t> chosen_live_numel(const SizeFacts& facts) {
  if (!is_ring(facts) || !facts.overlaps) return std::nullopt;
  return kMostLiveNumel;
}

}  // namespace zeroshard
