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
constexpr double kMostUnitBytes = static_cast<double>(std::int64_t{1} << 44U);

class CountedModel final : public PlannedModel {
 public:
  CountedModel(std::int64_t parameters, const CountedModelOptions& options)
      : parameters_(parameters), options_(options) {}

  std::string description() const override {
    return fmt::format("{} parameters in {} equal units{}", human_count(parameters_),
                       options_.units, options_.checkpoint_activations ? ", checkpointed" : "");
  }
  std::int64_t parameters() const override { return parameters_; }
  ModelLayout layout(DType dtype, int ranks) const override {
    return equal_units(parameters_, options_.units, dtype, ranks);
  }
  std::int64_t sequence() const override { return options_.sequence; }
  std::int64_t size() const override { return parameters_; }
  std::int64_t largest_size() const override { return kMostParameters; }
  double size_tolerance() const override { return 1e-4; }
  std::unique_ptr<PlannedModel> of_size(std::int64_t size) const override {
    return counted_model(size, options_);
  }

  std::optional<ModelActivations> activations(const ActivationQuery& query) const override {
    if (options_.sequence == 0) return std::nullopt;
    const UnitActivations unit = unit_activations(query);
    const double rows = static_cast<double>(query.micro_batch * length(query));
    ModelActivations all{.batch = std::llround(16 * rows)};
    for (int i = 0; i < options_.units; ++i) {
      all.uses.push_back(unit);
      all.uses.back().unit = static_cast<std::size_t>(i);
    }
    return all;
  }

 private:
  std::int64_t length(const ActivationQuery& query) const {
    return query.sequence > 0 ? query.sequence : options_.sequence;
  }

  // As in a transformer whose blocks have 12 * width^2 parameters: 34 bytes of each position and
  // channel are kept in 16 bits (Korthikanti et al., 2022), without the matrix of scores, which
  // flash attention does not keep; with checkpoints the input alone.
  UnitActivations unit_activations(const ActivationQuery& query) const {
    const double width = std::sqrt(static_cast<double>(parameters_) / (12.0 * options_.units));
    const double rows = static_cast<double>(query.micro_batch * length(query));
    const double inside = 17.0 * rows * width * query.width;
    const double kept = options_.checkpoint_activations ? rows * width * query.width : inside;
    const double flops = 2.0 * rows * static_cast<double>(parameters_) / options_.units +
                         2.0 * rows * static_cast<double>(length(query)) * width;
    if (kept + 1.5 * inside > kMostUnitBytes) {
      throw BeyondCounting(
          {.what = "the activations of one layer are more than any device holds",
           .value = fmt::format("{} samples of {} tokens", query.micro_batch, length(query)),
           .remedy = "make --micro-batch, --seq or the model smaller"});
    }
    UnitActivations unit{.kept = std::llround(kept),
                         .forward = std::llround(kept + 0.3 * inside),
                         .backward = std::llround(1.5 * inside)};
    const double again = options_.checkpoint_activations ? 1 : 0;
    unit.forward_work = {.product_flops = flops, .moved_bytes = 2 * inside, .operators = 20};
    unit.backward_work = {.product_flops = (2 + again) * flops,
                          .moved_bytes = (4 + 2 * again) * inside,
                          .operators = 40 + 20 * again};
    return unit;
  }

  const std::int64_t parameters_;
  const CountedModelOptions options_;
};

}  // namespace

std::unique_ptr<PlannedModel> counted_model(std::int64_t parameters,
                                            const CountedModelOptions& options) {
  return std::make_unique<CountedModel>(parameters, options);
}

}  // namespace zeroshard
