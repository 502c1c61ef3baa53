#include "zeroshard/setup/choices.h"

#include <algorithm>

#include <fmt/format.h>

#include "zeroshard/layout/placement.h"
#include "zeroshard/planner/chosen_sizes.h"

namespace zeroshard {

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
          .prefetch = open("stage3_prefetch_bucket_size"),
          .live = open("stage3_max_live_parameters")};
}

RankThreads rank_threads(int usable_cpus, int ranks, std::optional<std::int64_t> given) {
  const int threads =
      given && *given > 0 ? static_cast<int>(*given) : std::max(1, usable_cpus / ranks);
  return {.threads = threads, .leave_idle_cores = usable_cpus >= ranks * (threads + 1)};
}

std::vector<std::string> choose_communication(ZeroOptions& zero, const OpenChoices& open,
                                              const CommunicationFacts& facts, DType travels) {
  std::vector<std::string> chosen;
  if (facts.one_rank) return chosen;
  if (open.overlap) {
    zero.overlap_comm = facts.communicates_beside_compute;
    chosen.push_back(facts.communicates_beside_compute
                         ? "no overlap_comm: on"
                         : "no overlap_comm: off, no CPU core is idle");
  }
  const SizeFacts sizes{
      .parameters = facts.parameters,
      .topology = facts.topology,
      .accelerator = facts.on_accelerator,
      .overlaps = zero.overlap_comm.value_or(stage_row(zero.stage).overlaps_by_default()),
      .travels = travels};
  if (open.bucket) {
    zero.reduce_bucket_numel = chosen_bucket_numel(sizes);
    chosen.push_back(fmt::format("no reduce_bucket_size: {}", zero.reduce_bucket_numel));
  }
  if (open.prefetch && stage_row(zero.stage).parameters == Placement::sharded) {
    zero.prefetch_numel = chosen_prefetch_numel(sizes, zero.reduce_bucket_numel);
    chosen.push_back(fmt::format("no stage3_prefetch_bucket_size: {}", zero.prefetch_numel));
  }
  const auto live = chosen_live_numel(sizes);
  if (open.live && live && stage_row(zero.stage).parameters == Placement::sharded) {
    zero.max_live_numel = *live;
    chosen.push_back(fmt::format("no stage3_max_live_parameters: {}", zero.max_live_numel));
  }
  return chosen;
}

}  // namespace zeroshard
