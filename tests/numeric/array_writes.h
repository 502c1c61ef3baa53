// Random writes of arrays, and what they must give, spelled out.
#pragma once

#include "tests/numeric/float_array.h"
#include "zeroshard/numeric/arrays.h"

namespace zeroshard::testing {

// The arrays of one write, which starts at elements `to_begin` and `from_begin` of them.
struct WriteCase {
  FloatArray to, from;
  std::int64_t to_begin, from_begin;
  ArrayWrite write;  // without its pointers
};

inline float random_factor(Random& random) {
  static constexpr float kFactors[] = {1.0F, 0.5F, 1.0F / 3.0F, -1e-20F, 1e30F, 0x1p-140F};
  return kFactors[random.between(0, 5)];
}

inline WriteCase random_write(Random& random, std::int64_t count) {
  const DType to = random.dtype(), from = random.dtype();
  const std::int64_t to_begin = random.between(0, 5), from_begin = random.between(0, 5);
  return {.to = random_array(random, to, to_begin + count + 3),
          .from = random_array(random, from, from_begin + count + 3),
          .to_begin = to_begin,
          .from_begin = from_begin,
          .write = {.to_dtype = to,
                    .from_dtype = from,
                    .count = count,
                    .via1 = random.dtype(),
                    .factor1 = random_factor(random),
                    .via2 = random.dtype(),
                    .factor2 = random_factor(random),
                    .adds = random.between(0, 1) == 1}};
}

// A plain copy or sum now and then: it has a path of its own.
inline WriteCase plain_write(Random& random, std::int64_t count) {
  WriteCase made = random_write(random, count);
  made.write.via1 = made.write.via2 = DType::fp32;
  made.write.factor1 = made.write.factor2 = 1.0F;
  return made;
}

// The write with its pointers into arrays that start at `to` and `from` (null: zeros).
inline ArrayWrite placed_at(const WriteCase& one, void* to, const void* from) {
  ArrayWrite write = one.write;
  write.to = element_at(to, one.to_begin, write.to_dtype);
  if (from != nullptr) write.from = element_at(from, one.from_begin, write.from_dtype);
  return write;
}

inline FloatArray expected_result(const WriteCase& one, bool has_from) {
  const ArrayWrite& w = one.write;
  FloatArray result = one.to, via1(w.via1, 1), via2(w.via2, 1);
  for (std::int64_t i = 0; i < w.count; ++i) {
    via1.set(0, has_from ? one.from.get(one.from_begin + i) : 0.0F);
    float x = via1.get(0);
    if (w.factor1 != 1.0F) x *= w.factor1;
    via2.set(0, x);
    x = via2.get(0);
    if (w.factor2 != 1.0F) x *= w.factor2;
    result.set(one.to_begin + i, w.adds ? result.get(one.to_begin + i) + x : x);
  }
  return result;
}

}  // namespace zeroshard::testing
