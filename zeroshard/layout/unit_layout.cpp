#include "zeroshard/layout/unit_layout.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "zeroshard/layout/alignment.h"

namespace zeroshard {
namespace {

// Which parameters go together, before their layout is known.
struct GroupDraft {
  DType dtype;
  bool trainable;
  std::vector<std::size_t> parameters;
  std::vector<std::int64_t> numels;
};

std::size_t draft_for(const ParameterShape& shape, std::vector<GroupDraft>& drafts) {
  const auto found = std::find_if(drafts.begin(), drafts.end(), [&](const GroupDraft& draft) {
    return draft.dtype == shape.dtype && draft.trainable == shape.trainable;
  });
  if (found != drafts.end()) return static_cast<std::size_t>(found - drafts.begin());
  drafts.push_back({shape.dtype, shape.trainable, {}, {}});
  return drafts.size() - 1;
}

LayoutTotals totals_of(const FlatGroup& group) {
  const FlatLayout& layout = group.layout;
  const bool trainable = group.trainable;
  return {.numel = layout.numel(),
          .padded_numel = layout.padded_numel(),
          .shard_numel = layout.shard_numel(),
          .trainable_numel = trainable ? layout.numel() : 0,
          .trainable_padded_numel = trainable ? layout.padded_numel() : 0,
          .trainable_shard_numel = trainable ? layout.shard_numel() : 0,
          .gathered_bytes = buffer_bytes(layout.padded_numel(), group.dtype),
          .shard_bytes = buffer_bytes(layout.shard_numel(), group.dtype)};
}

}  // namespace

std::int64_t ParameterShape::numel() const {
  for (const std::int64_t dim : dims) ZS_CHECK_GE(dim, 0, "parameter {}: negative dim", name);
  // Empty first: {0, huge, huge} has no elements, whatever the product of the others is.
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return 0;
  std::int64_t product = 1;
  for (const std::int64_t dim : dims) product = checked_mul(product, dim);
  return product;
}

void LayoutTotals::add(const LayoutTotals& other) {
  numel = checked_add(numel, other.numel);
  padded_numel = checked_add(padded_numel, other.padded_numel);
  shard_numel = checked_add(shard_numel, other.shard_numel);
  trainable_numel = checked_add(trainable_numel, other.trainable_numel);
  trainable_padded_numel = checked_add(trainable_padded_numel, other.trainable_padded_numel);
  trainable_shard_numel = checked_add(trainable_shard_numel, other.trainable_shard_numel);
  gathered_bytes = checked_add(gathered_bytes, other.gathered_bytes);
  shard_bytes = checked_add(shard_bytes, other.shard_bytes);
}

UnitLayout::UnitLayout(std::string name, std::vector<ParameterShape> parameters, int world_size)
    : name_(std::move(name)) {
  ZS_CHECK_GE(world_size, 1, "unit {} needs at least one rank", name_);
  const auto parts = std::make_shared<Parts>();
  parts->world_size = world_size;
  parts->parameters = std::move(parameters);
  std::vector<GroupDraft> drafts;
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < parts->parameters.size(); ++i) {
    const ParameterShape& shape = parts->parameters[i];
    ZS_CHECK(names.insert(shape.name).second, "unit {} has two parameters named {}", name_,
             shape.name);
    const std::size_t group = draft_for(shape, drafts);
    parts->locations.push_back({group, drafts[group].parameters.size()});
    drafts[group].parameters.push_back(i);
    drafts[group].numels.push_back(shape.numel());
  }
  for (GroupDraft& draft : drafts) {
    parts->groups.push_back({draft.dtype, draft.trainable, std::move(draft.parameters),
                             FlatLayout(draft.numels, world_size), parts->totals.gathered_bytes});
    parts->totals.add(totals_of(parts->groups.back()));
  }
  parts_ = parts;
}

UnitLayout UnitLayout::alike(std::string name) const {
  UnitLayout other = *this;
  other.name_ = std::move(name);
  return other;
}

UnitLayout::Location UnitLayout::locate(std::size_t parameter) const {
  ZS_CHECK_LT(parameter, parts_->locations.size(), "no such parameter in unit {}", name_);
  return parts_->locations[parameter];
}

ModelLayout::ModelLayout(std::vector<UnitLayout> units, std::optional<std::size_t> root_unit)
    : units_(std::move(units)), root_unit_(root_unit) {
  if (root_unit_) ZS_CHECK_LT(*root_unit_, units_.size(), "the root unit is not in the list");
  std::unordered_set<std::string_view> names(units_.size());
  for (const UnitLayout& unit : units_) {
    ZS_CHECK(names.insert(unit.name()).second, "two units are named {}", unit.name());
    ZS_CHECK_EQ(unit.world_size(), units_.front().world_size(), "unit {}", unit.name());
    totals_.add(unit.totals());
  }
}

}  // namespace zeroshard
