#include "zeroshard/models/rotary.h"

#include <array>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>

namespace zeroshard::models {

AngleTable::AngleTable(const GptOptions& options) : options_(options) {}

Angles AngleTable::of(std::int64_t first, std::int64_t length, const at::TensorOptions& like) {
  if (options_.positions != Positions::rotary) return {};
  if (!all_.cosine.defined() || all_.cosine.dtype() != like.dtype() ||
      all_.cosine.device() != like.device()) {
    const at::NoGradGuard no_grad;
    const std::int64_t width = options_.head_width();
    // In double, then rounded once: positions of the thousands lose digits in fp32.
    const at::Tensor exponents = at::arange(0, width, 2, at::kDouble) / static_cast<double>(width);
    const at::Tensor turns = at::pow(options_.rope_theta, exponents).reciprocal();
    const at::Tensor angles =
        at::outer(at::arange(options_.sequence, at::kDouble), turns).unsqueeze(1);
    all_ = {angles.cos().to(like), angles.sin().to(like)};
  }
  return {all_.cosine.narrow(0, first, length), all_.sine.narrow(0, first, length)};
}

at::Tensor rotate(const at::Tensor& x, const Angles& angles) {
  const std::int64_t half = x.size(-1) / 2;
  const at::Tensor left = x.narrow(-1, 0, half);
  const at::Tensor right = x.narrow(-1, half, half);
  const std::array turned{at::addcmul(left * angles.cosine, right, angles.sine, -1),
                          at::addcmul(right * angles.cosine, left, angles.sine)};
  return at::cat(turned, -1);
}

}  // namespace zeroshard::models
