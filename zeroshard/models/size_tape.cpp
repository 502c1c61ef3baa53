#include "zeroshard/models/size_tape.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "zeroshard/base/bytes.h"

namespace zeroshard {

namespace {

// Of one unit. So many units as a model may have are still countable.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 46U;

}  // namespace

Memory SizeTape::take(std::int64_t bytes) {
  if (bytes > kMostBytes - *now_) {
    throw BeyondCounting({.what = "the activations of one layer are more than any device holds",
                          .value = human_bytes(checked_add(*now_, bytes)),
                          .remedy = "make --micro-batch, --seq or the model smaller"});
  }
  const std::int64_t rounded = (bytes + granule_ - 1) / granule_ * granule_;
  *now_ += rounded;
  peak_ = std::max(peak_, *now_);
  return {new std::int64_t(rounded), [now = now_](const std::int64_t* taken) {
            *now -= *taken;
            delete taken;
          }};
}

SizeTensor SizeTape::input(std::int64_t numel, int width) {
  SizeTensor tensor = make(numel, width);
  gradients_.emplace_back();
  tensor.value = static_cast<int>(gradients_.size()) - 1;
  return tensor;
}

SizeTensor SizeTape::record(SizeTensor output, const std::vector<SizeTensor>& inputs, bool trains,
                            Backward backward, const Work& work) {
  const bool flows = trains || std::ranges::any_of(inputs, &SizeTensor::needs_gradient);
  output.value = -1;
  if (!recording_ || !flows) return output;
  gradients_.emplace_back();
  output.value = static_cast<int>(gradients_.size()) - 1;
  Node node{.inputs = {}, .output = output.value, .backward = std::move(backward), .work = work};
  for (const SizeTensor& input : inputs) node.inputs.push_back(input.value);
  nodes_.push_back(std::move(node));
  return output;
}

void SizeTape::backward(SizeTensor output, Memory gradient) {
  if (!output.needs_gradient()) return;
  add_to(output.value, std::move(gradient));
  output = {};
  for (; !nodes_.empty(); nodes_.pop_back()) run(nodes_.back());
}

void SizeTape::run(Node& node) {
  Memory gradient = std::exchange(gradients_[static_cast<std::size_t>(node.output)], nullptr);
  if (gradient == nullptr) return;  // nobody has used the output
  std::vector<Memory> made = node.backward(*this, gradient);
  work_.add(node.work);
  gradient = nullptr;
  node.backward = nullptr;
  for (std::size_t i = 0; i < made.size() && i < node.inputs.size(); ++i) {
    if (node.inputs[i] >= 0) add_to(node.inputs[i], std::move(made[i]));
  }
  if (holds_) std::ranges::move(fresh_, std::back_inserter(held_));
  fresh_.clear();
}

// Into that of the two which is nobody else's; else their sum has memory of its own.
void SizeTape::add_to(int value, Memory gradient) {
  Memory& so_far = gradients_[static_cast<std::size_t>(value)];
  if (gradient == nullptr || (so_far != nullptr && so_far.use_count() == 1)) return;
  const bool has_two = so_far != nullptr && gradient.use_count() > 1;
  so_far = has_two ? take(*gradient) : std::move(gradient);
}

}  // namespace zeroshard
