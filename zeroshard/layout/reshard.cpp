#include "zeroshard/layout/reshard.h"

#include "zeroshard/base/check.h"
#include "zeroshard/layout/overlap.h"

namespace zeroshard {
namespace {

void check_same_parameters(const FlatLayout& source, const FlatLayout& destination) {
  ZS_CHECK_EQ(source.parameter_count(), destination.parameter_count(),
              "the flat groups differ in their parameters");
  for (std::size_t i = 0; i < source.parameter_count(); ++i) {
    ZS_CHECK_EQ(source.parameter_span(i).size(), destination.parameter_span(i).size(),
                "parameter {} differs in size", i);
  }
}

// The source shards that hold some of `wanted`, by rank.
std::vector<Span> shards_under(const FlatLayout& source, const Span& wanted, int first_rank) {
  std::vector<Span> shards;
  for (int rank = first_rank; rank < source.world_size(); ++rank) {
    if (source.shard(rank).begin() >= wanted.end()) break;
    shards.push_back(source.shard(rank));
  }
  return shards;
}

}  // namespace

// World size only changes the padding behind the last parameter, so a parameter has the same offset
// in both flat groups, and resharding is an intersection of the new shard with the old ones.
std::vector<ReshardPiece> reshard(const FlatLayout& source, const FlatLayout& destination,
                                  int destination_rank) {
  check_same_parameters(source, destination);
  const std::vector<ParameterPiece> pieces = destination.pieces(destination_rank);
  if (pieces.empty()) return {};
  std::vector<Span> wanted;
  for (const ParameterPiece& piece : pieces) wanted.push_back(piece.flat);
  const int first_rank = source.owner_of(wanted.front().begin());
  const Span all(wanted.front().begin(), wanted.back().end());
  const std::vector<Span> stored = shards_under(source, all, first_rank);

  std::vector<ReshardPiece> result;
  for (const Overlap& overlap : overlaps(wanted, stored)) {
    const ParameterPiece& piece = pieces[overlap.wanted];
    const std::int64_t parameter_begin = destination.parameter_span(piece.parameter).begin();
    const std::int64_t skipped = overlap.span.begin() - piece.flat.begin();
    result.push_back({.parameter = piece.parameter,
                      .within_parameter = overlap.span.shifted(-parameter_begin),
                      .source_rank = first_rank + static_cast<int>(overlap.stored),
                      .source_offset = overlap.span.begin() - stored[overlap.stored].begin(),
                      .destination_offset = piece.shard_offset + skipped});
  }
  return result;
}

}  // namespace zeroshard
