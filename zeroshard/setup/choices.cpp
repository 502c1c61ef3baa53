#include "zeroshard/setup/choices.h"

#include <algorithm>

#include <fmt/format.h>

#include "zeroshard/layout/placement.h"

namespace zeroshard {
namespace {

// A bucket is a part of the model, so that some gradients travel, and their memory is free again,
// while others are made. Below the least one the time goes into messages and not into bytes; above
// the most one nothing gets faster.
constexpr std::int64_t kParts = 8;
constexpr std::int64_t kLeastNumel = 1'000'000;
constexpr std::int64_t kMostNumel = 50'000'000;

std::int64_t part_of(std::int64_t parameters) {
  return std::clamp(parameters / kParts, kLeastNumel, kMostNumel);
}

}  // namespace

std::optional<std::string> choose_precision(PrecisionOptions& precision,
                                            const config::Provenance& provenance,
                                            bool has_accelerator) {
  const auto says = [&](const char* key) { return config::says(provenance, key); };
  if (says("bf16.enabled") || says("fp16.enabled")) return std::nullopt;
  precision.bf16.enabled = has_accelerator;
  precision.fp16.enabled = false;
  return has_accelerator ? "no precision: bf16 with fp32 master, on a GPU"
                         : "no precision: fp32, on a CPU";
}

OpenChoices open_choices(const config::Provenance& provenance) {
  const auto open = [&](const char* key) {
    return !config::says(provenance, fmt::format("zero_optimization.{}", key));
  };
  return {.overlap = open("overlap_comm"),
          .bucket = open("reduce_bucket_size"),
          .prefetch = open("stage3_prefetch_bucket_size")};
}

RankThreads rank_threads(int usable_cpus, int ranks, std::optional<std::int64_t> given) {
  const int threads =
      given && *given > 0 ? static_cast<int>(*given) : std::max(1, usable_cpus / ranks);
  return {.threads = threads, .leave_idle_cores = usable_cpus >= ranks * (threads + 1)};
}

std::vector<std::string> choose_communication(ZeroOptions& zero, const OpenChoices& open,
                                              const CommunicationFacts& facts) {
  std::vector<std::string> chosen;
  if (facts.one_rank) return chosen;
  if (open.overlap) {
    zero.overlap_comm = facts.communicates_beside_compute;
    chosen.push_back(facts.communicates_beside_compute
                         ? "no overlap_comm: on"
                         : "no overlap_comm: off, no CPU core is idle");
  }
  if (open.bucket) {
    zero.reduce_bucket_numel = part_of(facts.parameters);
    chosen.push_back(fmt::format("no reduce_bucket_size: {}", zero.reduce_bucket_numel));
  }
  if (open.prefetch && stage_row(zero.stage).parameters == Placement::sharded) {
    zero.prefetch_numel = zero.overlap_comm.value_or(true) ? part_of(facts.parameters) : 0;
    chosen.push_back(fmt::format("no stage3_prefetch_bucket_size: {}", zero.prefetch_numel));
  }
  return chosen;
}

}  // namespace zeroshard
