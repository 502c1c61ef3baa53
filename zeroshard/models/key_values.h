// Keys and values of the tokens that a model has seen: with them the next token costs one position
// and not all of them again.
//
//   KeyValueCache cache(options);
//   model.next_logits(prompt, cache);      // [batch, length], then one token at a time
//   model.next_logits(token, cache);       // the same logits as of prompt and token together
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zeroshard/models/options.h"

namespace zeroshard {
namespace models {

// Of one layer.
class KeyValues {
 public:
  explicit KeyValues(std::int64_t capacity) : capacity_(capacity) {}

  // Takes [batch, key heads, length, width] behind what is there, and returns all of it.
  struct Pair {
    at::Tensor keys, values;
  };
  Pair append(const at::Tensor& keys, const at::Tensor& values);

  std::int64_t length() const { return length_; }

 private:
  std::int64_t capacity_;
  std::int64_t length_ = 0;
  Pair all_;  // `capacity` positions, of which `length` are filled
};

// For units, which look for tensors in what they are given: no gradient goes through the past.
template <typename See>
void visit_tensors(KeyValues*&, const See&) {}

}  // namespace models

// Of all layers.
struct KeyValueCache {
  explicit KeyValueCache(const GptOptions& options);

  // Tokens seen so far.
  std::int64_t length() const { return layers.empty() ? 0 : layers.front().length(); }

  std::vector<models::KeyValues> layers;
};

}  // namespace zeroshard
