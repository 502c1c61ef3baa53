#include "zeroshard/config/batch_size.h"

#include <limits>
#include <vector>

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

// What was given, in the order of the product: "micro batch 8 x 4 ranks".
std::string factors(const BatchOptions& batch, std::optional<std::int64_t> ranks = std::nullopt) {
  std::vector<std::string> given;
  if (batch.micro_per_rank) given.push_back(fmt::format("micro batch {}", *batch.micro_per_rank));
  if (batch.accumulation) given.push_back(fmt::format("accumulation {}", *batch.accumulation));
  if (ranks) given.push_back(fmt::format("{} rank{}", *ranks, *ranks == 1 ? "" : "s"));
  return fmt::format("{}", fmt::join(given, " x "));
}

// Why the sizes do not fit: all three are given, and only one batch does; or the third would have
// to be a fraction.
SolvedBatch unsolved(const BatchOptions& batch, std::int64_t product, std::int64_t ranks) {
  const std::string made = factors(batch, ranks);
  if (batch.micro_per_rank && batch.accumulation) {
    return {std::nullopt, fmt::format("{} is not {}, which is {}", *batch.train, made, product),
            fmt::format("write {}, or leave one of the three sizes out", product)};
  }
  const char* relation = *batch.train < product ? "is less than" : "cannot be divided by";
  return {std::nullopt, fmt::format("{} {} {}", *batch.train, relation, made),
          product_remedy(product)};
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
  return unsolved(batch, given * steps * ranks, ranks);
}

int most_ranks(const BatchOptions& batch, int at_most) {
  for (int ranks = at_most; ranks > 1; --ranks) {
    if (solve_batch(batch, ranks).what.empty()) return ranks;
  }
  return solve_batch(batch, 1).what.empty() ? 1 : at_most;
}

SolvedBatch check_batch(const BatchOptions& batch) {
  if (!batch.train) return {};
  const std::int64_t micro = batch.micro_per_rank.value_or(1);
  const std::int64_t steps = batch.accumulation.value_or(1);
  if (!fits(micro, steps)) return too_large();
  if (*batch.train % (micro * steps) == 0) return {};
  return {std::nullopt,
          fmt::format("no number of ranks makes {} from {}", *batch.train, factors(batch)),
          product_remedy(micro * steps)};
}

}  // namespace zeroshard::config
