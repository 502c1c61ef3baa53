#include "zeroshard/engine/flat_unit.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/engine/empty_parameter.h"
#include "zeroshard/engine/plain_dispatch.h"
#include "zeroshard/engine/tensors.h"
#include "zeroshard/layout/alignment.h"

namespace zeroshard {
namespace {

UnitLayout layout_of(const UnitSpec& spec, const FlatUnitOptions& options) {
  std::vector<ParameterShape> shapes;
  for (const NamedParameter& parameter : spec.parameters) {
    const DType own = dtype_of(parameter.tensor, parameter.name);
    shapes.push_back({.name = parameter.name,
                      .dims = parameter.tensor.sizes().vec(),
                      .dtype = options.dtype.value_or(own),
                      .trainable = parameter.trained()});
  }
  return {spec.name, std::move(shapes), options.world_size};
}

}  // namespace

FlatUnit::FlatUnit(const UnitSpec& spec, const FlatUnitOptions& options,
                   std::shared_ptr<StateMemory> memory)
    : layout_(layout_of(spec, options)),
      parameters_(spec.parameters),
      options_(options),
      memory_(std::move(memory)),
      device_(memory_->device()),
      has_call_point_(spec.has_call_point),
      groups_(layout_.groups().size()),
      state_(options.resident ? ParameterState::ready : ParameterState::sharded) {
  const at::NoGradGuard no_grad;
  for (const NamedParameter& parameter : parameters_) {
    trainable_.push_back(parameter.trained());
  }
  if (!options_.resident && device_ == kCpu) {
    released_ = std::make_unique<ReleasedRange>(name(), gathered_bytes());
  } else if (!options_.resident && options_.poison) {
    const auto floats = at::TensorOptions().dtype(at::kFloat).device(to_torch(device_));
    poison_ = at::full({gathered_bytes() / 4 + 1}, std::numeric_limits<float>::quiet_NaN(), floats);
  }
  for (std::size_t index = 0; index < groups_.size(); ++index) make_group(index);
  if (!options_.resident) show_shapes(false);
}

FlatUnit::~FlatUnit() {
  const PlainDispatch plain;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& parameter = parameters_[i].tensor;
    if (parameter.storage().unsafeGetStorageImpl() !=
        groups_[layout_.locate(i).group].flat.storage().unsafeGetStorageImpl()) {
      continue;  // it has been given other memory since
    }
    if (!resident()) {
      parameter.set_data(parameter.data().new_empty({0}));
    } else if (!give_own_memory(parameter)) {
      log_warning(
          "[engine] there was no memory left in which {} could keep its values when its "
          "engine ended, so it has none; free memory before destroy()",
          parameters_[i].name);
    }
  }
}

void FlatUnit::rename(const std::string& unit, const std::vector<std::string>& parameters) {
  std::vector<ParameterShape> shapes = layout_.parameters();
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    shapes[i].name = parameters_[i].name = parameters[i];
  }
  layout_ = UnitLayout(unit, std::move(shapes), options_.world_size);
  if (released_) released_->rename(unit);
}

void FlatUnit::make_group(std::size_t index) {
  const FlatGroup& group = layout_.groups()[index];
  Group& made = groups_[index];
  made.shard_bytes = group.layout.shard_numel() * bytes_of(group.dtype);
  const std::int64_t numel =
      options_.resident ? group.layout.padded_numel() : group.layout.shard_numel();
  made.owned =
      memory_->allocate(Category::parameters, options_.tier, numel * bytes_of(group.dtype));
  const at::Tensor owned = tensor_over(made.owned.data(), numel, group.dtype, shard_device());
  owned.zero_();  // padding is zero, always
  copy_values(group, owned);
  void* const data = options_.resident ? made.owned.data() : released_data(index);
  made.flat = tensor_over(data, group.layout.padded_numel(), group.dtype, device_);
  make_views(group, made.flat);
}

// The whole group, or what the rank owns of it.
void FlatUnit::for_each_held_piece(const FlatGroup& group, const SeePiece& see) const {
  const int ranks = options_.resident ? group.layout.world_size() : 1;
  for (int i = 0; i < ranks; ++i) {
    const int rank = options_.resident ? i : options_.rank;
    const std::int64_t origin = options_.resident ? group.layout.shard(rank).begin() : 0;
    for (const ParameterPiece& piece : group.layout.pieces(rank)) {
      see(parameters_[group.parameters[piece.parameter]], piece.within_parameter,
          origin + piece.shard_offset);
    }
  }
}

void FlatUnit::copy_values(const FlatGroup& group, const at::Tensor& into) const {
  for_each_held_piece(
      group, [&](const NamedParameter& parameter, const Span& elements, std::int64_t at) {
        if (has_no_memory(parameter.tensor)) return;
        const at::Tensor values =
            parameter.tensor.detach().reshape({-1}).narrow(0, elements.begin(), elements.size());
        into.narrow(0, at, elements.size()).copy_(values);
      });
}

// A piece at a time, so that the values take no memory to speak of beside what they fill.
void FlatUnit::fill(const ParameterFiller& fill) {
  constexpr std::int64_t kAtOnce = 1 << 18;
  const at::NoGradGuard no_grad;
  std::vector<float> values;
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    const FlatGroup& group = layout_.groups()[index];
    void* const owned = groups_[index].owned.data();
    for_each_held_piece(group, [&](const NamedParameter& parameter, const Span& elements,
                                   std::int64_t at) {
      for (std::int64_t done = 0; done < elements.size(); done += kAtOnce) {
        const std::int64_t count = std::min(kAtOnce, elements.size() - done);
        const std::int64_t begin = elements.begin() + done;
        values.resize(static_cast<std::size_t>(count));
        fill(parameter.name, {begin, begin + count}, values.data());
        tensor_over(element_at(owned, at + done, group.dtype), count, group.dtype, shard_device())
            .copy_(tensor_over(values.data(), count, DType::fp32, kCpu));
      }
    });
  }
}

void FlatUnit::make_views(const FlatGroup& group, const at::Tensor& flat) {
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    at::Tensor& parameter = parameters_[group.parameters[i]].tensor;
    const Span& span = group.layout.parameter_span(i);
    parameter.set_data(flat.narrow(0, span.begin(), span.size()).view(parameter.sizes()));
  }
}

void* FlatUnit::released_data(std::size_t group) const {
  const std::int64_t offset = layout_.groups()[group].gathered_offset_bytes;
  if (released_) return static_cast<std::byte*>(released_->data()) + offset;
  return poison_.defined() ? poison_.mutable_data_ptr() : nullptr;
}

void FlatUnit::point_at(Group& group, void* data) const {
  group.flat.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      c10::DataPtr(data, to_torch(device_)));
}

void FlatUnit::show_shapes(bool shown) {
  if (options_.empties_released) set_shapes(shown);
}

// Only the leaf's own metadata: views of it, and the shapes that autograd has noted, are others'.
void FlatUnit::set_shapes(bool shown) {
  if (accumulators_.empty()) {
    for (const NamedParameter& parameter : parameters_) {
      if (!parameter.trained()) continue;
      accumulators_.push_back(keep_node(torch::autograd::impl::grad_accumulator(parameter.tensor)));
    }
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    c10::TensorImpl* const leaf = parameters_[i].tensor.unsafeGetTensorImpl();
    leaf->set_allow_tensor_metadata_change(true);
    leaf->set_sizes_contiguous(shown ? at::IntArrayRef(layout_.parameters()[i].dims)
                                     : at::IntArrayRef({0}));
  }
}

void* FlatUnit::shard(std::size_t group) const {
  const Group& of = groups_[group];
  const std::int64_t offset = options_.resident ? options_.rank * of.shard_bytes : 0;
  return static_cast<std::byte*>(of.owned.data()) + offset;
}

Piece FlatUnit::shard_piece(std::size_t group) const {
  const FlatGroup& of = layout_.groups()[group];
  return {shard(group), of.layout.shard_numel(), of.dtype, shard_device().kind};
}

void* FlatUnit::full(std::size_t group) const {
  ZS_CHECK(state_ != ParameterState::sharded, "unit {} has no full buffer", name());
  return groups_[group].flat.storage().unsafeGetStorageImpl()->mutable_data();
}

Piece FlatUnit::full_piece(std::size_t group) const {
  const FlatGroup& of = layout_.groups()[group];
  return {full(group), of.layout.padded_numel(), of.dtype, device_.kind};
}

void FlatUnit::begin_gather(void* full_memory) {
  ZS_CHECK(!resident(), "unit {} is gathered already", name());
  move_to(state_, ParameterState::gathering, name());
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    point_at(groups_[i],
             static_cast<std::byte*>(full_memory) + layout_.groups()[i].gathered_offset_bytes);
  }
}

void FlatUnit::show() {
  if (!resident()) show_shapes(true);
}

void FlatUnit::release() {
  ZS_CHECK(!resident(), "unit {} is never released", name());
  move_to(state_, ParameterState::sharded, name());
  for (std::size_t i = 0; i < groups_.size(); ++i) point_at(groups_[i], released_data(i));
  show_shapes(false);
}

void FlatUnit::leave_device() {
  if (!resident()) return;  // released already
  set_shapes(false);
  if (device_ == kCpu && !released_) {
    released_ = std::make_unique<ReleasedRange>(name(), gathered_bytes());
  }
  for (std::size_t i = 0; i < groups_.size(); ++i) point_at(groups_[i], released_data(i));
}

void FlatUnit::return_to_device() {
  if (!resident()) return;
  for (Group& group : groups_) point_at(group, group.owned.data());
  released_.reset();
  set_shapes(true);
}

std::vector<StateBuffer*> FlatUnit::owned_states() {
  std::vector<StateBuffer*> all;
  if (options_.tier != Tier::device) return all;
  for (Group& group : groups_) all.push_back(&group.owned);
  return all;
}

void FlatUnit::copy_full_to_shard() {
  if (resident()) return;  // the shard is a part of it
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const FlatGroup& group = layout_.groups()[i];
    const at::Tensor whole =
        tensor_over(full(i), group.layout.padded_numel(), group.dtype, device_);
    const Span own = group.layout.shard(options_.rank);
    tensor_over(shard(i), own.size(), group.dtype, shard_device())
        .copy_(whole.narrow(0, own.begin(), own.size()));
  }
}

std::vector<GatherPair> FlatUnit::gather_pairs(bool refresh) const {
  std::vector<GatherPair> pairs;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const FlatGroup& group = layout_.groups()[i];
    if (refresh && !group.trainable) continue;
    pairs.push_back({shard_piece(i).read(), full_piece(i)});
  }
  return pairs;
}

void FlatUnit::check_intact(bool trains) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const NamedParameter& parameter = parameters_[i];
    const at::Tensor& flat = groups_[layout_.locate(i).group].flat;
    if (parameter.tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() !=
        flat.storage().unsafeGetStorageImpl()) {
      throw StateError({.what = "a parameter has been given other memory behind the engine's back",
                        .value = fmt::format("{} of unit {}", parameter.name, name()),
                        .remedy = "call module.to() and the like before the engine is made"});
    }
    if (trains && parameter.trained() != trainable_[i]) {
      throw StateError({.what = "requires_grad has changed since the unit was sharded",
                        .value = fmt::format("{} of unit {}", parameter.name, name()),
                        .remedy = "freeze parameters before the engine is made, under Init in the "
                                  "unit's constructor"});
    }
  }
}

}  // namespace zeroshard
