#include "zeroshard/layout/segment.h"

#include "zeroshard/base/check.h"

namespace zeroshard {

std::vector<Segment> segments_of(const FlatLayout& layout, const std::vector<int>& hyper_parameters,
                                 int rank) {
  ZS_CHECK_EQ(hyper_parameters.size(), layout.parameter_count(), "one id per parameter");
  std::vector<Segment> segments;
  for (const ParameterPiece& piece : layout.pieces(rank)) {
    const int id = hyper_parameters[piece.parameter];
    if (!segments.empty() && segments.back().hyper_parameters == id) {
      Span& span = segments.back().span;
      span = Span(span.begin(), piece.flat.end());
    } else {
      segments.push_back({piece.flat, id});
    }
  }
  return segments;
}

}  // namespace zeroshard
