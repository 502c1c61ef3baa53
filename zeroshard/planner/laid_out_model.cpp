#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/layout/checked.h"
#include "zeroshard/planner/planned_model.h"

namespace zeroshard {
namespace {

class LaidOutModel final : public PlannedModel {
 public:
  explicit LaidOutModel(std::vector<PlannedUnit> units) : units_(std::move(units)) {
    for (const PlannedUnit& unit : units_) {
      for (const ParameterShape& parameter : unit.parameters) {
        parameters_ = checked_add(parameters_, parameter.numel());
      }
    }
  }

  std::string description() const override {
    return fmt::format("{} parameters in {} units", human_count(parameters_), units_.size());
  }
  std::int64_t parameters() const override { return parameters_; }
  std::optional<ModelActivations> activations(const ActivationQuery&) const override { return {}; }
  std::int64_t sequence() const override { return 0; }
  std::int64_t size() const override { return 1; }
  std::int64_t largest_size() const override { return 1; }
  std::unique_ptr<PlannedModel> of_size(std::int64_t) const override {
    return laid_out_model(units_);
  }

  ModelLayout layout(DType dtype, int ranks) const override {
    std::vector<UnitLayout> units;
    std::optional<std::size_t> root;
    for (const PlannedUnit& unit : units_) {
      if (unit.is_root) root = units.size();
      std::vector<ParameterShape> parameters = unit.parameters;
      for (ParameterShape& parameter : parameters) parameter.dtype = dtype;
      units.emplace_back(unit.name, std::move(parameters), ranks);
    }
    return ModelLayout(std::move(units), root);
  }

 private:
  const std::vector<PlannedUnit> units_;
  std::int64_t parameters_ = 0;
};

}  // namespace

std::unique_ptr<PlannedModel> laid_out_model(std::vector<PlannedUnit> units) {
  return std::make_unique<LaidOutModel>(std::move(units));
}

}  // namespace zeroshard
