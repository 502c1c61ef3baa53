#include "zeroshard/numeric/chunks.h"

#include <algorithm>

#include "zeroshard/base/check.h"

namespace zeroshard {
namespace {

constexpr int kAtOnce = 4;

}  // namespace

ArrayCut cut_arrays(std::int64_t count, std::int64_t first_chunk,
                    std::initializer_list<PlacedArray> arrays) {
  ArrayCut cut{.count = count, .first_chunk = first_chunk, .by_fours = true};
  int place = -1;
  for (const PlacedArray& array : arrays) {
    if (array.data == nullptr) continue;
    const auto address = reinterpret_cast<std::uintptr_t>(array.data);
    const auto size = static_cast<std::uintptr_t>(bytes_of(array.dtype));
    ZS_CHECK_EQ(address % size, 0U, "an array of {} lies between elements", name_of(array.dtype));
    const int its_place = static_cast<int>(address / size % kAtOnce);
    if (place >= 0 && its_place != place) cut.by_fours = false;
    place = its_place;
  }
  if (cut.by_fours && place > 0) {
    cut.head = static_cast<std::int32_t>(std::min<std::int64_t>(kAtOnce - place, count));
  }
  return cut;
}

std::int64_t end_chunk(const ArrayCut& cut) {
  const std::int64_t behind_head = cut.count - cut.head;
  return cut.first_chunk + std::max<std::int64_t>(1, (behind_head + kChunk - 1) / kChunk);
}

}  // namespace zeroshard
