#include "zeroshard/comm/rank_sum.h"

#include <algorithm>
#include <array>

#include "zeroshard/numeric/transfers.h"

namespace zeroshard {
namespace {

// Sums go through blocks that stay in the first-level cache. The cut does not show in the result:
// every element is summed by itself.
constexpr std::int64_t kBlock = 1024;
using Block = std::array<float, kBlock>;

// Elements from `begin` on, as floats; the loops are the fastest that this CPU has.
void load(const void* from, DType dtype, std::int64_t begin, std::int64_t count, float* to) {
  transfers_of(best_isa())
      .convert[0][float_index(dtype)](to, element_at(from, begin, dtype), count);
}

void add(const void* from, DType dtype, std::int64_t begin, std::int64_t count, float* to) {
  transfers_of(best_isa())
      .accumulate[0][float_index(dtype)](to, element_at(from, begin, dtype), count);
}

void store(const float* from, DType dtype, std::int64_t begin, std::int64_t count, void* to) {
  transfers_of(best_isa())
      .convert[float_index(dtype)][0](element_at(to, begin, dtype), from, count);
}

template <typename T>
void combine_whole_numbers(const std::vector<const void*>& addends, const Piece& piece,
                           ReduceOp op) {
  auto* out = static_cast<T*>(piece.data);
  for (std::int64_t i = 0; i < piece.count; ++i) {
    T value = static_cast<const T*>(addends[0])[i];
    for (std::size_t rank = 1; rank < addends.size(); ++rank) {
      const T other = static_cast<const T*>(addends[rank])[i];
      value = op == ReduceOp::sum ? static_cast<T>(value + other) : std::max(value, other);
    }
    out[i] = value;
  }
}

// NaN wins, on whichever rank it is: a lost NaN would be a lost overflow.
float larger(float a, float b) { return a != a ? a : (b != b || b > a ? b : a); }

void combine_floats(const std::vector<const void*>& addends, const Piece& piece, ReduceOp op) {
  Block value, other;
  for (std::int64_t begin = 0; begin < piece.count; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, piece.count - begin);
    load(addends[0], piece.dtype, begin, count, value.data());
    for (std::size_t rank = 1; rank < addends.size(); ++rank) {
      if (op == ReduceOp::sum) {
        add(addends[rank], piece.dtype, begin, count, value.data());
        continue;
      }
      load(addends[rank], piece.dtype, begin, count, other.data());
      for (std::int64_t i = 0; i < count; ++i) value[i] = larger(value[i], other[i]);
    }
    store(value.data(), piece.dtype, begin, count, piece.data);
  }
}

}  // namespace

void sum_in_rank_order(const std::vector<const void*>& addends, DType dtype, const Piece& out,
                       const ReduceOptions& options) {
  Block sum;
  for (std::int64_t begin = 0; begin < out.count; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, out.count - begin);
    load(addends[0], dtype, begin, count, sum.data());
    for (std::size_t rank = 1; rank < addends.size(); ++rank) {
      add(addends[rank], dtype, begin, count, sum.data());
    }
    if (options.scale != 1.0F) {
      for (std::int64_t i = 0; i < count; ++i) sum[i] *= options.scale;
    }
    if (options.accumulate) add(out.data, out.dtype, begin, count, sum.data());
    store(sum.data(), out.dtype, begin, count, out.data);
  }
}

void combine(const std::vector<const void*>& addends, const Piece& piece, ReduceOp op) {
  switch (piece.dtype) {
    case DType::int32: return combine_whole_numbers<std::int32_t>(addends, piece, op);
    case DType::uint8: return combine_whole_numbers<std::uint8_t>(addends, piece, op);
    default: return combine_floats(addends, piece, op);
  }
}

}  // namespace zeroshard
