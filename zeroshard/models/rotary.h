// Rotary positions: each pair of a head's elements is turned by an angle that grows with the
// token's position. Llama's pairing: element i with element i + width / 2 ("rotate half").
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "zeroshard/models/options.h"

namespace zeroshard::models {

// Cosines and sines, [sequence, 1, head width / 2], in the dtype of what they turn.
struct Angles {
  at::Tensor cosine, sine;
};

// Angles of all positions of a model; undefined tensors where it has none.
class AngleTable {
 public:
  explicit AngleTable(const GptOptions& options);

  // Of `length` positions from `first` on, for inputs like `like`. Kept, so that a forward computes
  // none.
  Angles of(std::int64_t first, std::int64_t length, const at::TensorOptions& like);

 private:
  GptOptions options_;
  Angles all_;
};

// x: [batch, length, heads, width].
at::Tensor rotate(const at::Tensor& x, const Angles& angles);

}  // namespace zeroshard::models
