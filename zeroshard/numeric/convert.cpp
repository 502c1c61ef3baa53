#include "zeroshard/numeric/convert.h"

#include <cstring>

#include "zeroshard/numeric/float_environment.h"
#include "zeroshard/numeric/transfers.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kConvertGrain = 1 << 16;

template <typename Body>
void for_each_chunk(const Floats& to, const ConstFloats& from, std::int64_t count, ThreadPool& pool,
                    const Body& body) {
  pool.parallel_for(count, kConvertGrain, [&](std::int64_t begin, std::int64_t end) {
    const FloatEnvironment environment(FloatEnvironment::Subnormals::kept);
    body(static_cast<char*>(to.data) + begin * bytes_of(to.dtype),
         static_cast<const char*>(from.data) + begin * bytes_of(from.dtype), end - begin);
  });
}

}  // namespace

void convert(const Floats& to, const ConstFloats& from, std::int64_t count, ThreadPool& pool,
             Isa isa) {
  const auto transfer = transfers_of(isa).convert[float_index(to.dtype)][float_index(from.dtype)];
  const bool same = to.dtype == from.dtype;
  for_each_chunk(to, from, count, pool, [&](void* into, const void* source, std::int64_t length) {
    if (!same) return transfer(into, source, length);
    std::memcpy(into, source, static_cast<std::size_t>(length * bytes_of(to.dtype)));
  });
}

void accumulate(const Floats& to, const ConstFloats& from, std::int64_t count, ThreadPool& pool,
                Isa isa) {
  const auto transfer =
      transfers_of(isa).accumulate[float_index(to.dtype)][float_index(from.dtype)];
  for_each_chunk(to, from, count, pool, [&](void* into, const void* source, std::int64_t length) {
    transfer(into, source, length);
  });
}

}  // namespace zeroshard
