#include "zeroshard/engine/gradient_group.h"

#include "zeroshard/base/check.h"
#include "zeroshard/engine/tensors.h"

namespace zeroshard {
namespace {

// In fp32, to be rounded once, to what travels. (torch's own product of a 16-bit tensor and a
// number rounds differently in vectors and in their tails.)
at::Tensor scaled(const at::Tensor& values, float factor) {
  return factor == 1.0F ? values : values.to(at::kFloat).mul(factor);
}

std::vector<Span> padding_of(const FlatLayout& layout) {
  std::vector<Span> spans;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < layout.parameter_count(); ++i) {
    const Span& parameter = layout.parameter_span(i);
    if (parameter.begin() > end) spans.emplace_back(end, parameter.begin());
    end = parameter.end();
  }
  if (layout.padded_numel() > end) spans.emplace_back(end, layout.padded_numel());
  return spans;
}

}  // namespace

GradientGroup::GradientGroup(const FlatGroup& group, const GradientPlan& plan, StateMemory& memory)
    : group_(group),
      plan_(plan),
      memory_(memory),
      device_(memory.device()),
      written_(group.parameters.size()),
      padding_(padding_of(group.layout)) {
  const std::int64_t padded = group.layout.padded_numel();
  if (plan.keeps_local()) {
    local_ =
        memory.allocate(Category::gradients, Tier::device, padded * bytes_of(plan.accumulation));
    tensor_over(local_.data(), padded, plan.accumulation, device_).zero_();
  }
  if (plan.reduces_in_place()) return;
  const bool whole = plan.stage.gradients_reduced == Placement::replicated;
  const std::int64_t owned = whole ? padded : group.layout.shard_numel();
  reduced_ = memory.allocate(Category::gradients, Tier::device, owned * bytes_of(plan.reduced));
  tensor_over(reduced_.data(), owned, plan.reduced, device_).zero_();
}

// Packed, kept, or (on one rank that keeps none) G itself.
void* GradientGroup::local_data(void* packed) const {
  if (plan_.keeps_local()) return local_.data();
  return packed != nullptr ? packed : reduced_data();
}

DType GradientGroup::local_dtype(const void* packed) const {
  if (plan_.keeps_local()) return plan_.accumulation;
  return packed != nullptr ? plan_.communication : reduced_dtype();
}

at::Tensor GradientGroup::local(std::size_t parameter, void* packed) const {
  const Span& span = group_.layout.parameter_span(parameter);
  const DType dtype = local_dtype(packed);
  return tensor_over(element_at(local_data(packed), span.begin(), dtype), span.size(), dtype,
                     device_);
}

void GradientGroup::write(std::size_t parameter, const at::Tensor& gradient, void* packed) {
  const at::Tensor to = local(parameter, packed);
  const bool on_reduced = packed == nullptr && !plan_.keeps_local();
  at::Tensor from = gradient.reshape({-1});
  if (!plan_.keeps_local()) {
    // What a kept local gradient would have been rounded to, so that stages agree.
    from = from.to(to_torch(plan_.accumulation));
    from = scaled(from, plan_.before);
  }
  if (on_reduced) {
    from = from.to(to_torch(plan_.communication));
    if (plan_.after != 1.0F) from = from.to(at::kFloat).mul(plan_.after);
  }
  if (written_[parameter] || (on_reduced && holds_reduced())) {
    to.add_(from);
  } else {
    to.copy_(from);
  }
  written_[parameter] = true;
}

void GradientGroup::fill_gaps(void* packed) {
  const DType dtype = local_dtype(packed);
  for (std::size_t i = 0; i < written_.size(); ++i) {
    // On G itself zeros are for the first time only: later they would wipe out what is there.
    const bool on_reduced = packed == nullptr && !plan_.keeps_local();
    if (!written_[i] && !(on_reduced && holds_reduced())) local(i, packed).zero_();
  }
  // The engine's own buffers have zeros there already, unless G of another dtype lay across them.
  const bool overwritten = plan_.reduces_in_place() && plan_.reduced != plan_.accumulation;
  if (packed == nullptr && !overwritten) return;
  void* const data = local_data(packed);
  for (const Span& span : padding_) {
    tensor_over(element_at(data, span.begin(), dtype), span.size(), dtype, device_).zero_();
  }
}

void GradientGroup::pack(void* packed) {
  if (!plan_.keeps_local()) return;
  at::Tensor from = tensor_over(local_.data(), padded_numel(), plan_.accumulation, device_);
  if (!plan_.packs()) {
    if (plan_.before != 1.0F) from.copy_(scaled(from, plan_.before));
    return;
  }
  tensor_over(packed, padded_numel(), plan_.communication, device_)
      .copy_(scaled(from, plan_.before));
}

ReducePair GradientGroup::pair(void* packed) {
  void* const from = plan_.packs() ? packed : local_.data();
  return {ConstPiece{from, padded_numel(), plan_.communication, device_.kind}, own_reduced()};
}

void GradientGroup::reduce_alone() {
  if (!plan_.keeps_local()) return;  // written there in the first place
  const at::Tensor from = tensor_over(local_.data(), padded_numel(), plan_.accumulation, device_);
  const bool unchanged = plan_.accumulation == plan_.communication && plan_.before == 1.0F &&
                         plan_.after == 1.0F && !promoted_;
  if (unchanged && plan_.reduced == plan_.accumulation) return;
  at::Tensor sum = scaled(from, plan_.before).to(to_torch(plan_.communication)).to(at::kFloat);
  sum = sum.mul(plan_.after);
  const Piece to = all_reduced();
  const at::Tensor reduced = tensor_over(to.data, to.count, to.dtype, device_);
  if (holds_reduced()) {
    reduced.add_(sum);
  } else {
    reduced.copy_(sum);
  }
}

void GradientGroup::promote() {
  if (promoted_ || reduced_dtype() == DType::fp32) {
    if (!plan_.reduces_in_place() || promoted_) return;
  }
  const Piece from =
      plan_.stage.gradients_reduced == Placement::replicated ? all_reduced() : own_reduced();
  if (!promoted_g_) {
    promoted_g_ =
        memory_.allocate(Category::gradients, Tier::device, from.count * bytes_of(DType::fp32));
  }
  tensor_over(promoted_g_.data(), from.count, DType::fp32, device_)
      .copy_(tensor_over(from.data, from.count, from.dtype, device_));
  promoted_ = true;
}

void GradientGroup::end_step() {
  promoted_ = false;
  reductions_ = 0;
  begin_generation();
}

void* GradientGroup::reduced_data() const {
  if (promoted_) return promoted_g_.data();
  return plan_.reduces_in_place() ? local_.data() : reduced_.data();
}

// Where the own span starts: in a buffer for all of G, or in one for the span alone.
std::int64_t GradientGroup::own_offset() const {
  const bool whole = plan_.stage.gradients_reduced == Placement::replicated ||
                     (plan_.reduces_in_place() && !promoted_);
  return whole ? group_.layout.shard(plan_.rank).begin() : 0;
}

Piece GradientGroup::own_reduced() const {
  return {element_at(reduced_data(), own_offset(), reduced_dtype()), group_.layout.shard_numel(),
          reduced_dtype(), device_.kind};
}

Piece GradientGroup::all_reduced() const {
  return {reduced_data(), padded_numel(), reduced_dtype(), device_.kind};
}

Piece GradientGroup::all_local() const {
  return {local_.data(), padded_numel(), plan_.accumulation, device_.kind};
}

}  // namespace zeroshard
