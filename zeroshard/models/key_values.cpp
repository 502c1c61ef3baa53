#include "zeroshard/models/key_values.h"

#include <ATen/ops/empty.h>

#include "zeroshard/base/check.h"

namespace zeroshard {
namespace {

at::Tensor room_for(const at::Tensor& like, std::int64_t capacity) {
  return at::empty({like.size(0), like.size(1), capacity, like.size(3)}, like.options());
}

}  // namespace

models::KeyValues::Pair models::KeyValues::append(const at::Tensor& keys,
                                                  const at::Tensor& values) {
  const std::int64_t count = keys.size(2);
  ZS_CHECK_LE(length_ + count, capacity_);
  if (length_ == 0) all_ = {room_for(keys, capacity_), room_for(values, capacity_)};
  all_.keys.narrow(2, length_, count).copy_(keys);
  all_.values.narrow(2, length_, count).copy_(values);
  length_ += count;
  return {all_.keys.narrow(2, 0, length_), all_.values.narrow(2, 0, length_)};
}

KeyValueCache::KeyValueCache(const GptOptions& options)
    : layers(static_cast<std::size_t>(options.layers), models::KeyValues(options.sequence)) {}

}  // namespace zeroshard
