#include "zeroshard/layout/overlap.h"

#include <string_view>

#include "zeroshard/base/check.h"

namespace zeroshard {
namespace {

void check_order(const std::vector<Span>& spans, std::string_view what) {
  for (std::size_t i = 1; i < spans.size(); ++i) {
    ZS_CHECK_LE(spans[i - 1].end(), spans[i].begin(), "{} span {} is out of order", what, i);
  }
}

}  // namespace

std::vector<Overlap> overlaps(const std::vector<Span>& wanted, const std::vector<Span>& stored) {
  check_order(wanted, "wanted");
  check_order(stored, "stored");
  std::vector<Overlap> found;
  std::size_t w = 0;
  std::size_t s = 0;
  while (w < wanted.size() && s < stored.size()) {
    const Span common = wanted[w].intersect(stored[s]);
    if (!common.empty()) found.push_back({common, w, s});
    // The one that ends first cannot meet anything further.
    if (wanted[w].end() < stored[s].end()) {
      ++w;
    } else {
      ++s;
    }
  }
  return found;
}

}  // namespace zeroshard
