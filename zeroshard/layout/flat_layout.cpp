#include "zeroshard/layout/flat_layout.h"

#include <algorithm>

#include "zeroshard/layout/alignment.h"

namespace zeroshard {

FlatLayout::FlatLayout(const std::vector<std::int64_t>& parameter_numels, int world_size)
    : world_size_(world_size) {
  ZS_CHECK_GE(world_size, 1, "a layout needs at least one rank");
  parameters_.reserve(parameter_numels.size());
  std::int64_t end = 0;
  for (const std::int64_t numel : parameter_numels) {
    ZS_CHECK_GE(numel, 0, "parameter {} has a negative size", parameters_.size());
    const std::int64_t begin = checked_round_up(end, kAlignment);
    end = checked_add(begin, numel);
    parameters_.emplace_back(begin, end);
    numel_ += numel;  // cannot overflow: never above `end`
  }
  padded_numel_ = checked_round_up(end, kAlignment * world_size);
}

const Span& FlatLayout::parameter_span(std::size_t parameter) const {
  ZS_CHECK_LT(parameter, parameters_.size(), "no such parameter in the flat group");
  return parameters_[parameter];
}

Span FlatLayout::shard(int rank) const {
  check_rank(rank);
  return Span(rank * shard_numel(), (rank + 1) * shard_numel());
}

int FlatLayout::owner_of(std::int64_t offset) const {
  ZS_CHECK_GE(offset, 0, "before the flat group");
  ZS_CHECK_LT(offset, padded_numel_, "behind the flat group");
  return static_cast<int>(offset / shard_numel());
}

ParameterPiece FlatLayout::piece(std::size_t parameter, int rank) const {
  const Span whole = parameter_span(parameter);
  const Span own = shard(rank);
  const Span flat = whole.intersect(own);
  if (flat.empty()) return {parameter, Span(), Span(), 0};
  return {.parameter = parameter,
          .flat = flat,
          .within_parameter = flat.shifted(-whole.begin()),
          .shard_offset = flat.begin() - own.begin()};
}

std::vector<ParameterPiece> FlatLayout::pieces(int rank) const {
  const Span own = shard(rank);
  const auto first =
      std::partition_point(parameters_.begin(), parameters_.end(),
                           [&](const Span& span) { return span.end() <= own.begin(); });
  std::vector<ParameterPiece> found;
  for (auto it = first; it != parameters_.end() && it->begin() < own.end(); ++it) {
    if (it->empty()) continue;
    found.push_back(piece(static_cast<std::size_t>(it - parameters_.begin()), rank));
  }
  return found;
}

void FlatLayout::check_rank(int rank) const {
  ZS_CHECK_GE(rank, 0, "no such rank");
  ZS_CHECK_LT(rank, world_size_, "no such rank");
}

}  // namespace zeroshard
