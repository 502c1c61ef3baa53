#include "zeroshard/config/batch_size.h"

#include <limits>

#include <fmt/format.h>

#include "zeroshard/base/check.h"

namespace zeroshard::config {
namespace {

bool fits(std::int64_t a, std::int64_t b) {
  return a <= std::numeric_limits<std::int64_t>::max() / b;
}

std::string product_remedy(std::int64_t unit) {
  return fmt::format("choose a multiple of {}", unit);
}

SolvedBatch too_large() {
  return {std::nullopt, "the batch sizes multiply to more than 64 bits hold",
          "choose smaller ones"};
}

}  // namespace

SolvedBatch solve_batch(const BatchOptions& batch, int world_size) {
  ZS_CHECK_GE(world_size, 1, "ranks to solve the batch sizes for");
  const std::int64_t ranks = world_size;
  if (!batch.train && !batch.micro_per_rank) return {};
  BatchSizes sizes;
  sizes.accumulation = batch.accumulation.value_or(1);
  if (batch.micro_per_rank) {
    sizes.micro_per_rank = *batch.micro_per_rank;
    if (batch.train && !batch.accumulation) {
      sizes.accumulation = *batch.train / sizes.micro_per_rank / ranks;
    }
  } else {
    sizes.micro_per_rank = *batch.train / ranks / sizes.accumulation;
  }
  const std::int64_t given = batch.micro_per_rank ? *batch.micro_per_rank : 1;
  const std::int64_t steps = batch.accumulation.value_or(1);
  if (!fits(given, steps) || !fits(given * steps, ranks)) return too_large();
  sizes.train = sizes.micro_per_rank * sizes.accumulation * ranks;
  if (!batch.train || *batch.train == sizes.train) return {sizes};
  return {std::nullopt,
          fmt::format("{} is not micro batch {} x accumulation {} x {} rank{}", *batch.train,
                      sizes.micro_per_rank, sizes.accumulation, ranks, ranks == 1 ? "" : "s"),
          product_remedy(given * steps * ranks)};
}

SolvedBatch check_batch(const BatchOptions& batch) {
  if (!batch.train) return {};
  const std::int64_t micro = batch.micro_per_rank.value_or(1);
  const std::int64_t steps = batch.accumulation.value_or(1);
  if (!fits(micro, steps)) return too_large();
  if (*batch.train % (micro * steps) == 0) return {};
  return {std::nullopt,
          fmt::format("no number of ranks makes {} from micro batch {} x accumulation {}",
                      *batch.train, micro, steps),
          product_remedy(micro * steps)};
}

}  // namespace zeroshard::config
