#include "zeroshard/engine/group_masters.h"

#include <algorithm>

#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>

#include "zeroshard/engine/tensors.h"
#include "zeroshard/numeric/masters.h"

namespace zeroshard {
namespace {

std::uint16_t* halves_at(const at::Tensor& parameters, std::int64_t begin) {
  return static_cast<std::uint16_t*>(parameters.mutable_data_ptr()) + begin;
}

std::int64_t bytes_of_all(const at::Tensor& tensor) {
  return tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
}

}  // namespace

GroupMasters::GroupMasters(MasterForm form, Tier tier, const at::Tensor& parameters,
                           StateMemory& memory)
    : form_(form), tier_(tier), states_(&memory) {
  if (form_ == MasterForm::parameter) return;
  memory_ = memory.allocate(Category::master, tier, parameters.numel() * stored_bytes(form));
  take_all(parameters);
}

at::Tensor GroupMasters::whole(const at::Tensor& parameters) const {
  if (form_ == MasterForm::parameter) return parameters;
  const Device device = tier_ == Tier::device ? states_->device() : kCpu;
  return tensor_over(memory_.data(), parameters.numel(), DType::fp32, device);
}

at::Tensor GroupMasters::values(const at::Tensor& parameters, std::int64_t begin,
                                std::int64_t count) const {
  if (form_ != MasterForm::halved) return whole(parameters).narrow(0, begin, count);
  at::Tensor joined = at::empty({count}, parameters.options().dtype(at::kFloat));
  join_masters(zeroshard::device_of(parameters), joined.mutable_data_ptr<float>(),
               {.parameter = halves_at(parameters, begin), .low = low(begin)}, count);
  return joined;
}

std::int64_t GroupMasters::write(const at::Tensor& parameters, std::int64_t begin,
                                 const at::Tensor& values) {
  const std::int64_t count = values.numel();
  if (form_ == MasterForm::halved) {
    const at::Tensor from =
        values.reshape({-1}).to(parameters.options().dtype(at::kFloat)).contiguous();
    return halve_masters(zeroshard::device_of(parameters),
                         {.parameter = halves_at(parameters, begin), .low = low(begin)},
                         from.const_data_ptr<float>(), count);
  }
  const at::Tensor to = whole(parameters).narrow(0, begin, count);
  to.copy_(values.reshape({-1}));
  if (parameters.scalar_type() != at::kBFloat16) return 0;
  return settle_masters(zeroshard::device_of(to), to.mutable_data_ptr<float>(), count);
}

void GroupMasters::write_parameters(const at::Tensor& parameters) const {
  if (form_ == MasterForm::whole) parameters.copy_(whole(parameters));
}

void GroupMasters::take_all(const at::Tensor& parameters) {
  if (form_ == MasterForm::whole) whole(parameters).copy_(parameters);
  if (form_ != MasterForm::halved) return;
  tensor_over(low(0), parameters.numel(), DType::bf16, zeroshard::device_of(parameters)).zero_();
}

void GroupMasters::keep_parameters(const at::Tensor& parameters) {
  if (form_ != MasterForm::halved) return;
  if (keepers_ == 0) {
    before_ = states_->allocate(Category::buffers, tier_, bytes_of_all(parameters));
    copy_before(parameters);
  }
  ++keepers_;  // where there was no memory, nobody keeps anything
}

void GroupMasters::copy_before(const at::Tensor& parameters) {
  tensor_over(before_->data(), parameters.numel(), DType::bf16, zeroshard::device_of(parameters))
      .copy_(parameters);
}

void GroupMasters::keep_updated(const at::Tensor& parameters) {
  if (before_) copy_before(parameters);
}

void GroupMasters::take_changed(const at::Tensor& parameters) {
  if (form_ == MasterForm::whole) return take_changed_whole(parameters);
  if (form_ != MasterForm::halved || !before_) return;
  const Device device = zeroshard::device_of(parameters);
  forget_low_halves(device, {.parameter = halves_at(parameters, 0), .low = low(0)},
                    static_cast<const std::uint16_t*>(before_->data()), parameters.numel());
  before_->read(Stream::current(device));
  // A scope around this one sees from here on what changes after it.
  if (keepers_ > 1) copy_before(parameters);
}

void GroupMasters::restore_parameters(const at::Tensor& parameters) const {
  if (!before_) return;
  parameters.copy_(tensor_over(before_->data(), parameters.numel(), DType::bf16,
                               zeroshard::device_of(parameters)));
}

void GroupMasters::end_keeping() {
  if (keepers_ > 0 && --keepers_ == 0) before_.reset();
}

// Piece by piece, so that what is computed on the way stays small. Bits are compared, as halves do
// it: zeros of two signs are two numbers, and a NaN is itself.
void GroupMasters::take_changed_whole(const at::Tensor& parameters) {
  constexpr std::int64_t kPiece = 1 << 20;
  const at::Tensor masters = whole(parameters);
  const auto bits_of = [](const at::Tensor& values) {
    return values.view(values.element_size() == 2 ? at::kShort : at::kInt);
  };
  for (std::int64_t begin = 0; begin < masters.numel(); begin += kPiece) {
    const std::int64_t count = std::min(kPiece, masters.numel() - begin);
    const at::Tensor master = masters.narrow(0, begin, count);
    const at::Tensor parameter = parameters.narrow(0, begin, count).to(master.device());
    const at::Tensor same = bits_of(master.to(parameter.scalar_type())).eq(bits_of(parameter));
    master.copy_(at::where(same, master, parameter.to(at::kFloat)));
  }
}

void GroupMasters::point(UpdateSpan& span, const at::Tensor& parameters, std::int64_t begin) const {
  const DType dtype = dtype_of(parameters, "a parameter");
  void* const parameter = element_at(parameters.mutable_data_ptr(), begin, dtype);
  if (form_ == MasterForm::parameter) {
    span.master = static_cast<float*>(parameter);
    return;
  }
  span.parameter = parameter;
  span.parameter_dtype = dtype;
  if (form_ == MasterForm::halved) {
    span.master_low = low(begin);
  } else {
    span.master = static_cast<float*>(memory_.data()) + begin;
  }
}

}  // namespace zeroshard
