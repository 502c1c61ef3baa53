#include "zeroshard/planner/footprint.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "zeroshard/base/check.h"
#include "zeroshard/layout/alignment.h"
#include "zeroshard/layout/norm_blocks.h"
#include "zeroshard/layout/placement.h"
#include "zeroshard/layout/pool.h"
#include "zeroshard/layout/reduction_plan.h"
#include "zeroshard/layout/traffic.h"

namespace zeroshard {
namespace {

// Which units the engine never releases, and the pool for the others.
GatherPool gather_pool(const ModelLayout& model, const ZeroOptions& zero) {
  std::vector<UnitSize> units;
  for (std::size_t i = 0; i < model.units().size(); ++i) {
    const LayoutTotals& totals = model.units()[i].totals();
    units.push_back({totals.numel, totals.gathered_bytes, model.root_unit() == i});
  }
  return size_gather_pool(units, forward_and_backward(units.size()),
                          {.persistence_numel = zero.persistence_numel,
                           .model_persistence_numel = zero.model_persistence_numel,
                           .prefetch_numel = zero.prefetch_numel,
                           .max_live_numel = zero.max_live_numel});
}

// G is fp32 where several micro-steps add up in it.
DType reduced_dtype(const FootprintOptions& options) {
  const Stage& stage = stage_row(options.zero.stage);
  return options.precision.reduced(stage.reductions_add_up(options.micro_steps));
}

class Accountant {
 public:
  Accountant(const ModelLayout& model, const FootprintOptions& options)
      : model_(model),
        options_(options),
        stage_(stage_row(options.zero.stage)),
        world_size_(model.units().empty() ? 1 : model.units().front().world_size()),
        // With one rank the shard is the whole buffer, so nothing is ever gathered into another
        // one, unless the shard lies on the host.
        gathers_(stage_.parameters == Placement::sharded &&
                 (world_size_ > 1 || options.offload.parameters == Tier::host)) {}

  Footprint run() {
    const GatherPool pool = gathers_ ? gather_pool(model_, options_.zero) : GatherPool{};
    for (std::size_t i = 0; i < model_.units().size(); ++i) {
      const bool persistent = gathers_ && pool.persistent[i];
      for (const FlatGroup& group : model_.units()[i].groups()) {
        add_parameters(group, persistent);
        if (group.trainable) add_training_states(group);
      }
    }
    add(Category::buffers, Tier::device, pool.pool_bytes);
    add_bucket_buffers();
    if (options_.accelerator) add_norm_sums();
    add_staging();
    return footprint_;
  }

 private:
  Tier parameter_tier() const {
    return stage_.parameters == Placement::sharded ? options_.offload.parameters : Tier::device;
  }

  // A persistent unit's shard is a part of its full buffer, unless the shard lies on the host.
  void add_parameters(const FlatGroup& group, bool persistent) {
    const std::int64_t full = buffer_bytes(group.layout.padded_numel(), group.dtype);
    const std::int64_t shard = buffer_bytes(group.layout.shard_numel(), group.dtype);
    const bool whole = stage_.parameters == Placement::replicated || persistent;
    if (whole) add(Category::parameters, Tier::device, full);
    if (parameter_tier() == Tier::host) {
      add(Category::parameters, Tier::host, shard);
    } else if (!whole) {
      add(Category::parameters, Tier::device, shard);
    }
  }

  void add_training_states(const FlatGroup& group) {
    const FlatLayout& layout = group.layout;
    const std::int64_t owned = stage_.optimizer_states == Placement::sharded
                                   ? layout.shard_numel()
                                   : layout.padded_numel();
    const std::int64_t on_host = options_.offload.optimizer == Tier::host
                                     ? offloaded_numel(owned, options_.offload.optimizer_ratio)
                                     : 0;
    for (const auto& [tier, numel] :
         {std::pair{Tier::device, owned - on_host}, std::pair{Tier::host, on_host}}) {
      // In fp32 a parameter is its own master, where both lie on one tier.
      const bool own_master = group.dtype == DType::fp32 && tier == parameter_tier();
      if (!own_master) add(Category::master, tier, buffer_bytes(numel, DType::fp32));
      add(Category::moments, tier,
          buffer_bytes(numel, DType::fp32) * options_.moments_per_parameter);
      add_reduced_gradient(tier, numel);
    }
    if (stage_.gradients_accumulating == Placement::partial) {
      add(Category::gradients, Tier::device,
          buffer_bytes(layout.padded_numel(), options_.precision.accumulation()));
    }
  }

  // G overwrites the local gradient where there is one on the device and G's elements fit into it.
  void add_reduced_gradient(Tier tier, std::int64_t numel) {
    const bool local_kept = stage_.gradients_accumulating == Placement::partial;
    const DType reduced = reduced_dtype(options_);
    const bool in_place = local_kept && tier == Tier::device &&
                          bytes_of(reduced) <= bytes_of(options_.precision.accumulation());
    if (!in_place) add(Category::gradients, tier, buffer_bytes(numel, reduced));
  }

  // Stages that keep the local gradient reduce straight out of it, where it has the dtype that
  // travels; the others fill buckets. What a communicator stages inside is its own: mpi's is of a
  // fixed size for each rank, whatever the model's, and so are NCCL's buffers.
  void add_bucket_buffers() {
    const DType dtype = options_.precision.communication();
    const bool fills = stage_.gradients_accumulating == Placement::sharded ||
                       options_.precision.accumulation() != dtype;
    if (world_size_ == 1 || !fills) return;
    std::vector<std::int64_t> numels;
    for (const UnitLayout& unit : model_.units()) {
      numels.push_back(unit.totals().trainable_padded_numel);
    }
    const ReductionPlan plan = plan_reductions(
        numels, {.bucket_numel = options_.zero.reduce_bucket_numel,
                 .dtype = dtype,
                 .overlap = options_.zero.overlap_comm.value_or(stage_.overlaps_by_default()),
                 .root_unit = model_.root_unit()});
    add(Category::buffers, Tier::device, plan.total_bytes);
  }

  // Block by block of what the rank owns of each trainable group (layout/norm_blocks.h).
  void add_norm_sums() {
    std::vector<std::int64_t> counts;
    for (const UnitLayout& unit : model_.units()) {
      for (const FlatGroup& group : unit.groups()) {
        if (group.trainable) counts.push_back(group.layout.shard_numel());
      }
    }
    add(Category::buffers, Tier::device, buffer_bytes(norm_scratch_bytes(counts), DType::uint8));
  }

  // 16-bit parameters on their way up: two slots, so that one is sent while one is written.
  void add_staging() {
    const bool host = options_.offload.optimizer == Tier::host || parameter_tier() == Tier::host;
    if (!host) return;
    std::int64_t largest = 0;
    for (const UnitLayout& unit : model_.units()) {
      largest = std::max(largest, unit.totals().shard_bytes);
    }
    add(Category::buffers, Tier::host, size_staging_ring(2, largest).total_bytes);
  }

  void add(Category category, Tier tier, std::int64_t bytes) {
    footprint_.add(category, tier, bytes);
  }

  const ModelLayout& model_;
  const FootprintOptions& options_;
  const Stage& stage_;
  int world_size_;
  bool gathers_;
  Footprint footprint_;
};

}  // namespace

void Footprint::add(Category category, Tier tier, std::int64_t bytes) {
  auto& cell = bytes_[static_cast<std::size_t>(category)][static_cast<std::size_t>(tier)];
  cell = checked_add(cell, bytes);
}

std::int64_t Footprint::bytes(Category category, Tier tier) const {
  return bytes_[static_cast<std::size_t>(category)][static_cast<std::size_t>(tier)];
}

std::int64_t Footprint::states(Tier tier) const {
  std::int64_t sum = 0;
  for (Category category : kCategories) {
    if (category != Category::buffers) sum = checked_add(sum, bytes(category, tier));
  }
  return sum;
}

FootprintOptions footprint_options(const Config& config, std::int64_t micro_steps) {
  return {.zero = config.zero,
          .offload = config.offload,
          .precision = config.precision,
          .moments_per_parameter =
              moments_per_parameter(config.optimizer.value_or(OptimizerOptions{AdamOptions{}})),
          .micro_steps = micro_steps};
}

Footprint footprint(const ModelLayout& model, const FootprintOptions& options) {
  return Accountant(model, options).run();
}

std::int64_t bytes_sent_per_step(const ModelLayout& model, const FootprintOptions& options) {
  const Stage& stage = stage_row(options.zero.stage);
  const bool sharded = stage.parameters == Placement::sharded;
  const GatherPool pool = sharded ? gather_pool(model, options.zero) : GatherPool{};
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < model.units().size(); ++i) {
    for (const FlatGroup& group : model.units()[i].groups()) {
      const Traffic traffic = traffic_per_step(
          stage, static_cast<int>(options.micro_steps),
          {.trainable = group.trainable, .released = sharded && !pool.persistent[i]});
      const TrafficBytes bytes = bytes_sent(group.layout, traffic,
                                            {.parameters = group.dtype,
                                             .reduced = options.precision.communication(),
                                             .gathered_gradients = reduced_dtype(options)});
      sum = checked_add(sum, checked_add(bytes.reduce, bytes.gather));
    }
  }
  return sum;
}

ModelLayout equal_units(std::int64_t parameters, int units, DType dtype, int world_size) {
  ZS_CHECK_GE(parameters, 0);
  ZS_CHECK_GE(units, 1);
  std::vector<UnitLayout> layouts;
  for (int i = 0; i < units; ++i) {
    const std::int64_t numel = parameters / units + (i < parameters % units ? 1 : 0);
    const std::string name = fmt::format("unit.{}", i);
    layouts.emplace_back(name, std::vector<ParameterShape>{{name + ".weight", {numel}, dtype}},
                         world_size);
  }
  return ModelLayout(std::move(layouts));
}

}  // namespace zeroshard
