// Units and the whole model: parameters split into flat groups, and the totals that follow.
//
//   UnitLayout block("h.0", {{"weight", {768, 768}}, {"bias", {768}}}, /*world_size=*/8);
//   block.groups()[0].layout.shard(3);
//   ModelLayout model({embedding, block, head});
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "zeroshard/base/dtype.h"
#include "zeroshard/layout/flat_layout.h"

namespace zeroshard {

struct ParameterShape {
  std::string name;
  std::vector<std::int64_t> dims;  // none: a scalar
  DType dtype = DType::fp32;
  bool trainable = true;

  // The product of the dims, checked.
  std::int64_t numel() const;
};

// The parameters of one unit that share dtype and trainability.
struct FlatGroup {
  DType dtype;
  bool trainable;
  std::vector<std::size_t> parameters;  // indices into the unit's list
  FlatLayout layout;
  std::int64_t gathered_offset_bytes;  // where the group starts in the unit's gathered buffer
};

struct LayoutTotals {
  std::int64_t numel = 0;
  std::int64_t padded_numel = 0;
  std::int64_t shard_numel = 0;
  std::int64_t trainable_numel = 0;
  std::int64_t trainable_padded_numel = 0;
  std::int64_t trainable_shard_numel = 0;
  std::int64_t gathered_bytes = 0;  // full parameters, each group's buffer rounded to 256
  std::int64_t shard_bytes = 0;     // one rank's parameters, likewise

  void add(const LayoutTotals& other);

  bool operator==(const LayoutTotals& other) const = default;
};

// Copies share all but the name.
class UnitLayout {
 public:
  // Parameter names must differ: a tied parameter is one parameter.
  UnitLayout(std::string name, std::vector<ParameterShape> parameters, int world_size);

  // One that is laid out alike, for a plan of many equal units: its parameters keep their names.
  UnitLayout alike(std::string name) const;

  const std::string& name() const noexcept { return name_; }
  int world_size() const noexcept { return parts_->world_size; }
  const std::vector<ParameterShape>& parameters() const noexcept { return parts_->parameters; }

  // One per (dtype, trainable), in order of first appearance.
  const std::vector<FlatGroup>& groups() const noexcept { return parts_->groups; }

  // In which group a parameter lies, and as which parameter of that group's layout.
  struct Location {
    std::size_t group = 0;
    std::size_t index = 0;
  };
  Location locate(std::size_t parameter) const;

  const LayoutTotals& totals() const noexcept { return parts_->totals; }

 private:
  struct Parts {
    int world_size = 1;
    std::vector<ParameterShape> parameters;
    std::vector<FlatGroup> groups;
    std::vector<Location> locations;
    LayoutTotals totals;
  };

  std::string name_;
  std::shared_ptr<const Parts> parts_;
};

class ModelLayout {
 public:
  // Units in forward order, with different names and one world size. `root_unit` is an index.
  explicit ModelLayout(std::vector<UnitLayout> units,
                       std::optional<std::size_t> root_unit = std::nullopt);

  const std::vector<UnitLayout>& units() const noexcept { return units_; }
  std::optional<std::size_t> root_unit() const noexcept { return root_unit_; }
  const LayoutTotals& totals() const noexcept { return totals_; }

 private:
  std::vector<UnitLayout> units_;
  std::optional<std::size_t> root_unit_;
  LayoutTotals totals_;
};

}  // namespace zeroshard
