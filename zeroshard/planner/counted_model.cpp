#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/planner/footprint.h"
#include "zeroshard/planner/planned_model.h"

namespace zeroshard {
namespace {

// Far beyond any model, and small enough that bytes stay countable.
constexpr std::int64_t kMostParameters = 100'000'000'000'000'000;

class CountedModel final : public PlannedModel {
 public:
  CountedModel(std::int64_t parameters, int units, std::int64_t sequence)
      : parameters_(parameters), units_(units), sequence_(sequence) {}

  std::string description() const override {
    return fmt::format("{} parameters in {} equal units", human_count(parameters_), units_);
  }
  std::int64_t parameters() const override { return parameters_; }
  ModelLayout layout(DType dtype, int ranks) const override {
    return equal_units(parameters_, units_, dtype, ranks);
  }
  std::int64_t sequence() const override { return sequence_; }
  std::int64_t size() const override { return parameters_; }
  std::int64_t largest_size() const override { return kMostParameters; }
  std::unique_ptr<PlannedModel> of_size(std::int64_t size) const override {
    return counted_model(size, units_, sequence_);
  }

  // As in a transformer with heads of 128 whose blocks have 12 * width^2 parameters: 34 numbers of
  // each position and channel are kept in 16 bits (Korthikanti et al., 2022), without the matrix of
  // scores, which flash attention does not keep.
  std::optional<ModelActivations> activations(const ActivationQuery& query) const override {
    if (sequence_ == 0) return std::nullopt;
    const double width = std::sqrt(static_cast<double>(parameters_) / (12.0 * units_));
    const std::int64_t length = query.sequence > 0 ? query.sequence : sequence_;
    const double rows = static_cast<double>(query.micro_batch * length);
    const double kept = 17.0 * rows * width * query.width;
    const double flops = 2.0 * rows * static_cast<double>(parameters_) / units_ +
                         2.0 * rows * static_cast<double>(length) * width;
    UnitActivations unit{.kept = std::llround(kept),
                         .forward = std::llround(1.3 * kept),
                         .backward = std::llround(1.5 * kept)};
    unit.forward_work = {.product_flops = flops, .moved_bytes = 2 * kept, .operators = 20};
    unit.backward_work = {.product_flops = 2 * flops, .moved_bytes = 4 * kept, .operators = 40};
    ModelActivations all{.batch = std::llround(16 * rows)};
    for (int i = 0; i < units_; ++i) {
      unit.unit = static_cast<std::size_t>(i);
      all.uses.push_back(unit);
    }
    return all;
  }

 private:
  const std::int64_t parameters_;
  const int units_;
  const std::int64_t sequence_;
};

}  // namespace

std::unique_ptr<PlannedModel> counted_model(std::int64_t parameters, int units,
                                            std::int64_t sequence) {
  return std::make_unique<CountedModel>(parameters, units, sequence);
}

}  // namespace zeroshard
