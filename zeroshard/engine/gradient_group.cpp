#include "zeroshard/engine/gradient_group.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>

#include "zeroshard/base/check.h"
#include "zeroshard/engine/gradients_down.h"
#include "zeroshard/engine/tensors.h"
#include "zeroshard/layout/alignment.h"
#include "zeroshard/layout/tier_plan.h"

namespace zeroshard {
namespace {

// In fp32, to be rounded once, to what travels. (torch's own product of a 16-bit tensor and a
// number rounds differently in vectors and in their tails.)
at::Tensor scaled(const at::Tensor& values, float factor) {
  return factor == 1.0F ? values : values.to(at::kFloat).mul(factor);
}

at::Tensor rounded(const at::Tensor& values, DType dtype) {
  return dtype == DType::fp32 ? values : values.to(to_torch(dtype));
}

// Its temporaries are as large as a piece, enough work for many threads.
constexpr std::int64_t kPiece = 512 << 10;

void write_piece_by_torch(const ArrayWrite& write) {
  const at::Tensor to = tensor_over(write.to, write.count, write.to_dtype, kCpu);
  if (write.from == nullptr) return void(to.zero_());
  at::Tensor from = tensor_over(const_cast<void*>(write.from), write.count, write.from_dtype, kCpu);
  from = scaled(rounded(from, write.via1), write.factor1);
  from = scaled(rounded(from, write.via2), write.factor2);
  write.adds ? void(to.add_(from)) : void(to.copy_(from));
}

ArrayWrite piece_of(const ArrayWrite& all, std::int64_t begin, std::int64_t end) {
  ArrayWrite piece = all;
  piece.to = element_at(all.to, begin, all.to_dtype);
  if (all.from != nullptr) {
    piece.from = element_at(all.from, begin, all.from_dtype);
  }
  piece.count = std::min(end, all.count) - begin;
  return piece;
}

// On the host torch's own loops use all threads of the process.
void write_by_torch(const ArrayWrite& all) {
  for (std::int64_t begin = 0; begin < all.count; begin += kPiece) {
    write_piece_by_torch(piece_of(all, begin, begin + kPiece));
  }
}

// On an accelerator the same roundings and products are one pass over all, without temporaries.
void write_values(Device device, const std::vector<ArrayWrite>& all) {
  if (device != kCpu) return write_arrays(device, all);
  std::ranges::for_each(all, write_by_torch);
}

// Into the memory that is read, where the elements become smaller. Each piece is as long as all
// before it, so that it is written where only those lay.
void narrow_in_place(Device device, const ArrayWrite& all) {
  for (std::int64_t begin = 0, end = 1; begin < all.count; begin = end, end = 2 * begin) {
    ArrayWrite piece = piece_of(all, begin, end);
    piece.from = element_at(all.to, begin, all.from_dtype);
    write_values(device, {piece});
  }
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

// Whether nobody else has the gradient's memory, so that keeping it copies nothing, and writing
// into what `.grad` shows of it changes nothing else. The caller's reference counts, and one more
// on the way here. Most gradients of weights are transposed views, whose base nobody has but they.
bool is_ours_alone(const at::Tensor& gradient) {
  const bool is_view = gradient.is_view();
  const bool base_is_alone = !is_view || gradient._base().use_count() == 1;
  const auto bytes = static_cast<std::size_t>(gradient.numel()) * gradient.element_size();
  return gradient.is_contiguous() && gradient.use_count() <= 2 && base_is_alone &&
         gradient.storage().use_count() == (is_view ? 2 : 1) &&
         gradient.storage().nbytes() <= 2 * bytes + 512;
}

}  // namespace

WriteTarget GradientPlan::flat_target() const {
  if (keeps_local()) return WriteTarget::kept;
  return world_size > 1 ? WriteTarget::bucket : WriteTarget::reduced;
}

GradientTypes GradientPlan::types() const {
  return {.accumulation = accumulation,
          .communication = communication,
          .reduced = reduced,
          .scaled = scale_before_sum != 1.0F || scale_after_sum != 1.0F};
}

WriteTarget GradientPlan::target(DType dtype, Tier tier) const {
  if (tier == Tier::host) {
    const bool keeps = host_unit_keeps_local(stage, world_size, accumulation_steps);
    return world_size > 1 || keeps ? flat_target() : WriteTarget::sent;
  }
  return holds_gradients(dtype, types(), world_size, accumulation_steps) ? WriteTarget::held
                                                                         : flat_target();
}

GradientGroup::GradientGroup(const FlatGroup& group, const GradientPlan& plan,
                             const GradientHome& home, StateMemory& memory)
    : group_(group),
      plan_(plan),
      home_(home),
      memory_(&memory),
      device_(memory.device()),
      target_(plan.target(group.dtype, home.tier)),
      held_(group.parameters.size()),
      written_(group.parameters.size()),
      sent_(group.parameters.size()),
      padding_(padding_of(group.layout)) {
  if (target_ == WriteTarget::sent) {
    allocate_reduced();
  } else if (!is_held()) {
    allocate();
  }
}

GradientGroup::GradientGroup(GradientGroup&& other) noexcept
    : group_(other.group_),
      plan_(other.plan_),
      home_(other.home_),
      memory_(std::exchange(other.memory_, nullptr)),
      device_(other.device_),
      target_(other.target_),
      held_(std::move(other.held_)),
      counted_bytes_(other.counted_bytes_),
      local_(std::move(other.local_)),
      reduced_(std::move(other.reduced_)),
      promoted_g_(std::move(other.promoted_g_)),
      promoted_(other.promoted_),
      written_(std::move(other.written_)),
      sent_(std::move(other.sent_)),
      reduces_(other.reduces_),
      padding_(std::move(other.padding_)),
      reductions_(other.reductions_),
      squares_(std::move(other.squares_)) {}

GradientGroup::~GradientGroup() {
  if (memory_ != nullptr) count_held(0);
}

void GradientGroup::allocate() {
  if (plan_.keeps_local()) allocate_local();
  if (!overwrites_local() && !reduced_) allocate_reduced();
}

void GradientGroup::allocate_local() {
  const std::int64_t padded = padded_numel();
  local_ =
      memory_->allocate(Category::gradients, Tier::device, padded * bytes_of(plan_.accumulation));
  over(local_.data(), padded, plan_.accumulation).zero_();
}

void GradientGroup::allocate_reduced() {
  const bool whole = plan_.stage.gradients_reduced == Placement::replicated;
  const std::int64_t owned = whole ? padded_numel() : group_.layout.shard_numel();
  reduced_ = memory_->allocate(Category::gradients, home_.tier, owned * bytes_of(plan_.reduced));
  tensor_over(reduced_.data(), owned, plan_.reduced, reduced_device()).zero_();
}

// Held gradients are torch's memory, and count as all that the group will have of it: from the
// first that comes to the end of the step.
void GradientGroup::count_held(std::int64_t bytes) {
  const std::int64_t change = bytes - std::exchange(counted_bytes_, bytes);
  if (change != 0) memory_->ledger().add(Category::gradients, Tier::device, change);
}

at::Tensor GradientGroup::over(void* data, std::int64_t count, DType dtype) const {
  return tensor_over(data, count, dtype, device_);
}

GradientGroup::Local GradientGroup::local(void* bucket) const {
  switch (target_) {
    case WriteTarget::kept: return {local_.data(), plan_.accumulation};
    case WriteTarget::bucket: return {bucket, plan_.communication};
    case WriteTarget::reduced: return {reduced_data(), reduced_dtype()};
    case WriteTarget::held:
    case WriteTarget::sent: break;
  }
  ZS_CHECK(false, "held gradients have no memory of ours");
  return {};
}

// Zeros into a span, until the caller says what else.
ArrayWrite GradientGroup::into(const Local& to, const Span& span) const {
  return {.to = element_at(to.data, span.begin(), to.dtype),
          .to_dtype = to.dtype,
          .count = span.size()};
}

void GradientGroup::write(std::size_t parameter, const at::Tensor& gradient, void* bucket) {
  if (target_ == WriteTarget::sent && reduces_) return send(parameter, gradient);
  const bool may_hold = is_held() || target_ == WriteTarget::sent;
  if (may_hold && !written_[parameter]) return hold(parameter, gradient);
  settle();
  const at::Tensor from = gradient.contiguous();
  ArrayWrite write = into(local(bucket), group_.layout.parameter_span(parameter));
  write.from = from.const_data_ptr();
  write.from_dtype = dtype_of(from, "a gradient");
  write.adds = written_[parameter] || adds_to_reduced();
  if (target_ != WriteTarget::kept) {
    // What a kept local gradient would have been rounded to, so that stages agree.
    write.via1 = plan_.accumulation;
    write.factor1 = plan_.scale_before_sum;
  }
  if (target_ == WriteTarget::reduced) {
    write.via2 = plan_.communication;
    write.factor2 = plan_.scale_after_sum;
  }
  write_values(device_, {write});
  written_[parameter] = true;
}

void GradientGroup::hold(std::size_t parameter, const at::Tensor& gradient) {
  count_held(own_gradient_bytes(group_));
  const bool as_it_is = gradient.scalar_type() == to_torch(group_.dtype) && is_ours_alone(gradient);
  if (as_it_is) {
    // The same memory, without autograd's book-keeping.
    held_[parameter] = gradient.variable_data();
  } else {
    at::Tensor own = at::empty(gradient.sizes(), gradient.options().dtype(to_torch(group_.dtype)));
    own.copy_(gradient);
    held_[parameter] = own;
  }
  written_[parameter] = true;
}

std::vector<StateBuffer*> GradientGroup::memory() {
  if (counted_bytes_ > 0) settle();
  if (on_host()) return {&local_};
  return {&local_, &reduced_, &promoted_g_};
}

void GradientGroup::note_held_use() const {
  for (const at::Tensor& gradient : held_) {
    if (gradient.defined()) record_use_here(gradient);
  }
}

// The roundings are those of a gradient that is written into G on the device.
void GradientGroup::send(std::size_t parameter, const at::Tensor& gradient) {
  squares_.reset();
  ArrayWrite write =
      into({reduced_data(), reduced_dtype()}, group_.layout.parameter_span(parameter));
  write.via1 = plan_.accumulation;
  write.factor1 = plan_.scale_before_sum;
  write.via2 = plan_.communication;
  write.factor2 = plan_.scale_after_sum;
  write.adds = sent_[parameter];
  home_.down->send(gradient, write, reduced_is_pinned());
  written_[parameter] = sent_[parameter] = true;
}

// What was kept or held on the device until the step's last micro-step.
void GradientGroup::send_local() {
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if (held_[i].defined()) send(i, std::exchange(held_[i], at::Tensor()));
  }
  count_held(0);
  squares_.reset();
  if (target_ != WriteTarget::kept) return;
  ArrayWrite write = from_local(reduced_data(), reduced_dtype());
  write.via2 = plan_.communication;
  write.factor2 = plan_.scale_after_sum;
  write.adds = holds_reduced();
  home_.down->send(over(local_.data(), padded_numel(), plan_.accumulation), write,
                   reduced_is_pinned());
}

void GradientGroup::settle() {
  const bool holds = target_ == WriteTarget::sent && counted_bytes_ > 0;
  if (!is_held() && !holds) return;
  count_held(0);
  target_ = plan_.flat_target();
  allocate();
  // What is reduced already is G, whose dtype may be another than the local gradient's.
  const Local to = holds_reduced() ? Local{reduced_data(), reduced_dtype()} : local(nullptr);
  std::vector<ArrayWrite> writes;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if (!held_[i].defined()) continue;
    ArrayWrite& write = writes.emplace_back(into(to, group_.layout.parameter_span(i)));
    write.from = held_[i].const_data_ptr();
    write.from_dtype = group_.dtype;
  }
  write_values(device_, writes);
  note_held_use();  // they may have been made on another stream
  std::ranges::fill(held_, at::Tensor());
}

void GradientGroup::fill_gaps(void* bucket) {
  if (target_ == WriteTarget::sent) return zero_unsent();
  if (is_held()) return;
  const Local to = local(bucket);
  std::vector<ArrayWrite> zeros;
  for (std::size_t i = 0; i < written_.size(); ++i) {
    // On G itself zeros are for the first time only: later they would wipe out what is there.
    if (written_[i] || adds_to_reduced()) continue;
    zeros.push_back(into(to, group_.layout.parameter_span(i)));
  }
  // The engine's own buffers have zeros there already, unless G of another dtype lay across them.
  const bool overwritten = overwrites_local() && plan_.reduced != plan_.accumulation;
  if (target_ == WriteTarget::bucket || overwritten) {
    for (const Span& span : padding_) zeros.push_back(into(to, span));
  }
  write_values(device_, zeros);
}

// Zeros for what no gradient came of, in this step: there is nothing of it to add to.
void GradientGroup::zero_unsent() {
  std::vector<ArrayWrite> zeros;
  for (std::size_t i = 0; i < sent_.size(); ++i) {
    if (sent_[i] || held_[i].defined()) continue;
    zeros.push_back(into({reduced_data(), reduced_dtype()}, group_.layout.parameter_span(i)));
    sent_[i] = true;
  }
  write_values(kCpu, zeros);
}

// All of the local gradient into memory that is as long; the caller says what is done on the way.
ArrayWrite GradientGroup::from_local(void* to, DType dtype) const {
  return {.to = to,
          .to_dtype = dtype,
          .from = local_.data(),
          .from_dtype = plan_.accumulation,
          .count = padded_numel(),
          .factor1 = plan_.scale_before_sum};
}

void GradientGroup::pack(void* bucket) {
  if (target_ != WriteTarget::kept) return;
  if (!plan_.packs() && plan_.scale_before_sum == 1.0F) return;  // sent as it lies there
  void* const to = plan_.packs() ? bucket : local_.data();
  write_values(device_, {from_local(to, plan_.communication)});
}

ReducePair GradientGroup::pair(void* bucket) {
  void* const from = plan_.packs() ? bucket : local_.data();
  return {ConstPiece{from, padded_numel(), plan_.communication, device_.kind}, own_reduced()};
}

void GradientGroup::reduce_alone() {
  if (on_host()) return send_local();
  if (target_ != WriteTarget::kept) return;  // written there in the first place
  const Piece to = all_reduced();
  ArrayWrite write = from_local(to.data, to.dtype);
  write.via2 = plan_.communication;
  write.factor2 = plan_.scale_after_sum;
  write.adds = holds_reduced();
  const bool in_place = to.data == local_.data();
  if (in_place && to.dtype != plan_.accumulation) return narrow_in_place(device_, write);
  const bool unchanged =
      plan_.accumulation == plan_.communication && write.factor1 == 1.0F && write.factor2 == 1.0F;
  if (!in_place || !unchanged) write_values(device_, {write});
}

void GradientGroup::promote() {
  squares_.reset();
  if (promoted_ || (reduced_dtype() == DType::fp32 && !overwrites_local())) return;
  const bool whole = plan_.stage.gradients_reduced == Placement::replicated;
  const Piece from = whole ? all_reduced() : own_reduced();
  if (!promoted_g_) {
    promoted_g_ =
        memory_->allocate(Category::gradients, home_.tier, from.count * bytes_of(DType::fp32));
  }
  write_values(reduced_device(), {{.to = promoted_g_.data(),
                                   .from = from.data,
                                   .from_dtype = from.dtype,
                                   .count = from.count}});
  promoted_ = true;
}

void GradientGroup::end_step() {
  promoted_ = false;
  reductions_ = 0;
  begin_generation();
  squares_.reset();
  sent_.assign(sent_.size(), false);
  std::ranges::fill(held_, at::Tensor());
  count_held(0);
}

void* GradientGroup::reduced_data() const {
  if (promoted_) return promoted_g_.data();
  return overwrites_local() ? local_.data() : reduced_.data();
}

// Where the own span starts: in a buffer for all of G, or in one for the span alone.
std::int64_t GradientGroup::own_offset() const {
  const bool whole =
      plan_.stage.gradients_reduced == Placement::replicated || (overwrites_local() && !promoted_);
  return whole ? group_.layout.shard(plan_.rank).begin() : 0;
}

std::vector<GradientGroup::ReducedPiece> GradientGroup::reduced(const Span& span) const {
  std::vector<ReducedPiece> pieces;
  if (!is_held()) {
    const std::int64_t first = group_.layout.shard(plan_.rank).begin() - own_offset();
    const void* const data = element_at(reduced_data(), span.begin() - first, reduced_dtype());
    pieces.push_back({0, {data, span.size(), reduced_dtype(), reduced_device().kind}});
    return pieces;
  }
  for (std::size_t i = 0; i < held_.size(); ++i) {
    const Span& parameter = group_.layout.parameter_span(i);
    const Span part = parameter.intersect(span);
    if (part.empty() || !held_[i].defined()) continue;
    const void* const data =
        element_at(held_[i].mutable_data_ptr(), part.begin() - parameter.begin(), group_.dtype);
    pieces.push_back(
        {part.begin() - span.begin(), {data, part.size(), group_.dtype, device_.kind}});
  }
  return pieces;
}

NormSpan GradientGroup::norm_span() const {
  const Span own = group_.layout.shard(plan_.rank);
  NormSpan span{.count = own.size()};
  for (const ReducedPiece& piece : reduced(own)) {
    span.pieces.push_back(
        {piece.values.data, piece.values.dtype, piece.values.count, piece.offset});
  }
  return span;
}

void GradientGroup::start_sum_of_squares() {
  if (on_host()) squares_ = home_.down->sum_of_squares(norm_span());
}

std::optional<double> GradientGroup::sum_of_squares() const {
  return squares_ ? std::optional(*squares_) : std::nullopt;
}

Piece GradientGroup::own_reduced() const {
  squares_.reset();
  ZS_CHECK(!is_held(), "held gradients are in many pieces");
  return {element_at(reduced_data(), own_offset(), reduced_dtype()), group_.layout.shard_numel(),
          reduced_dtype(), reduced_device().kind};
}

Piece GradientGroup::all_reduced() const {
  squares_.reset();
  ZS_CHECK(!is_held(), "held gradients are in many pieces");
  return {reduced_data(), padded_numel(), reduced_dtype(), reduced_device().kind};
}

Piece GradientGroup::all_local() const {
  return {local_.data(), padded_numel(), plan_.accumulation, device_.kind};
}

}  // namespace zeroshard
