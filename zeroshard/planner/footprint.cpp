#include "zeroshard/planner/footprint.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "zeroshard/base/check.h"
#include "zeroshard/layout/alignment.h"
#include "zeroshard/layout/norm_blocks.h"
#include "zeroshard/layout/placement.h"
#include "zeroshard/layout/pool.h"
#include "zeroshard/layout/traffic.h"
#include "zeroshard/planner/gather_plan.h"

namespace zeroshard {
namespace {

class Accountant {
 public:
  Accountant(const ModelLayout& model, const FootprintOptions& options)
      : model_(model),
        options_(options),
        stage_(stage_row(options.zero.stage)),
        world_size_(model.units().empty() ? 1 : model.units().front().world_size()),
        types_(gradient_types(options)) {
    // With one rank the shard is the whole buffer, so nothing is ever gathered into another one,
    // unless the shard lies on the host.
    const bool gathers = stage_.parameters == Placement::sharded &&
                         (world_size_ > 1 || options.offload.parameters != Tier::device);
    if (gathers) pool_ = gather_pool(model, options.zero);
    resident_ = gathers ? pool_.persistent : std::vector<bool>(model.units().size(), true);
    tiers_ = make_tier_plan();
  }

  const TierPlan& tiers() const { return tiers_; }

  Footprint run() {
    for (std::size_t i = 0; i < model_.units().size(); ++i) {
      for (const FlatGroup& group : model_.units()[i].groups()) {
        add_parameters(group, resident_[i]);
        if (group.trainable) add_training_states(group, i);
      }
    }
    add(Category::gradients, Tier::device, tiers_.passing_gradient_bytes);
    add_buffer(BufferUse::gather_pool, Tier::device, pool_.pool_bytes);
    add_buffer(BufferUse::staging, Tier::device, tiers_.values_down.total_bytes);
    add_buffer(BufferUse::staging, Tier::host, tiers_.staging.total_bytes);
    add_buffer(BufferUse::staging, Tier::host, tiers_.unsent_bytes);
    add_buffer(BufferUse::undo, Tier::host, tiers_.undo_bytes);
    add_save_buffers();
    add_bucket_buffers();
    if (options_.accelerator) add_norm_sums();
    return footprint_;
  }

 private:
  std::vector<const UnitLayout*> unit_layouts() const {
    std::vector<const UnitLayout*> units;
    for (const UnitLayout& unit : model_.units()) units.push_back(&unit);
    return units;
  }

  TierPlan make_tier_plan() const {
    return plan_tiers(unit_layouts(), resident_,
                      {.stage = stage_,
                       .offload = options_.offload,
                       .first_host_unit = options_.first_host_unit,
                       .micro_steps = options_.micro_steps,
                       .gradients = types_,
                       .speculates = updates_early(options_.zero),
                       .undo_limit_bytes = options_.undo_limit_bytes,
                       .delays = options_.zero.delayed_update,
                       .moments = options_.moments_per_parameter});
  }

  // A resident unit's shard is a part of its full buffer, which lies on the device.
  void add_parameters(const FlatGroup& group, bool resident) {
    const FlatLayout& layout = group.layout;
    add(Category::parameters, tiers_.shard(resident),
        buffer_bytes(resident ? layout.padded_numel() : layout.shard_numel(), group.dtype));
  }

  void add_training_states(const FlatGroup& group, std::size_t unit) {
    const FlatLayout& layout = group.layout;
    const Tier tier = tiers_.optimizer(unit);
    const std::int64_t owned = stage_.optimizer_states == Placement::sharded
                                   ? layout.shard_numel()
                                   : layout.padded_numel();
    const std::int64_t in_fp32 = buffer_bytes(owned, DType::fp32);
    const MasterForm form =
        master_form(group.dtype, tiers_.shard(resident_[unit]), tier, options_.zero.halved_masters);
    add(Category::master, tier, buffer_bytes(owned * stored_bytes(form), DType::uint8));
    add(Category::moments, tier, in_fp32 * options_.moments_per_parameter);
    add_gradients(group, tier, owned);
  }

  // A unit on the device has the local gradient where the stage keeps one, and G overwrites it
  // where G's elements fit into it; where gradients are held there are these alone. A unit on the
  // host has G there, and its gradients pass through the device (layout/tier_plan.h) unless they
  // must add up on it first.
  void add_gradients(const FlatGroup& group, Tier tier, std::int64_t owned) {
    const bool on_host = tier == Tier::host;
    if (!on_host && holds_gradients(group.dtype, types_, world_size_, options_.micro_steps)) {
      return add(Category::gradients, tier, own_gradient_bytes(group));
    }
    const bool keeps_local = on_host
                                 ? host_unit_keeps_local(stage_, world_size_, options_.micro_steps)
                                 : stage_.gradients_accumulating == Placement::partial;
    const DType accumulation = types_.accumulation, reduced = types_.reduced;
    if (keeps_local) {
      add(Category::gradients, Tier::device,
          buffer_bytes(group.layout.padded_numel(), accumulation));
    }
    const bool in_place = keeps_local && !on_host && bytes_of(reduced) <= bytes_of(accumulation);
    if (!in_place) add(Category::gradients, tier, buffer_bytes(owned, reduced));
  }

  void add_save_buffers() {
    if (!options_.save.saves) return;
    add_buffer(BufferUse::staging, Tier::host, std::int64_t{kSaveStagingBytes});
    if (!options_.save.snapshot) return;
    add_buffer(BufferUse::snapshot, Tier::host,
               save_snapshot_bytes(model_, options_.moments_per_parameter));
  }

  // What a communicator stages inside is its own: mpi's is of a fixed size for each rank, whatever
  // the model's, and so are NCCL's buffers.
  void add_bucket_buffers() {
    if (world_size_ == 1) return;
    const ReductionPlan plan = reduction_plan(model_, options_);
    if (packs_buckets(options_)) add_buffer(BufferUse::buckets, Tier::device, plan.total_bytes);
    add_buffer(BufferUse::sums, Tier::device,
               sum_scratch_bytes(unit_layouts(), plan, tiers_,
                                 {types_.communication, types_.reduced}, sum_options()));
  }

  SumOptions sum_options() const {
    return {.sums = options_.sums,
            .ranks = world_size_,
            .scale = mean_factors(options_.precision, world_size_).after_sum,
            .accumulates = stage_.reductions_add_up(options_.micro_steps)};
  }

  // Block by block of what the rank owns of each trainable group (layout/norm_blocks.h) whose G is
  // on the device.
  void add_norm_sums() {
    std::vector<std::int64_t> counts;
    for (std::size_t i = 0; i < tiers_.first_host_unit; ++i) {
      for (const FlatGroup& group : model_.units()[i].groups()) {
        if (group.trainable) counts.push_back(group.layout.shard_numel());
      }
    }
    add_buffer(BufferUse::norm, Tier::device,
               buffer_bytes(norm_scratch_bytes(counts), DType::uint8));
  }

  void add(Category category, Tier tier, std::int64_t bytes) {
    footprint_.add(category, tier, bytes);
  }

  void add_buffer(BufferUse use, Tier tier, std::int64_t bytes) {
    footprint_.add_buffer(use, tier, bytes);
  }

  const ModelLayout& model_;
  const FootprintOptions& options_;
  const Stage& stage_;
  int world_size_;
  GradientTypes types_;
  GatherPool pool_ = {};
  std::vector<bool> resident_ = {};
  TierPlan tiers_ = {};
  Footprint footprint_ = {};
};

}  // namespace

void Footprint::add(Category category, Tier tier, std::int64_t bytes) {
  auto& cell = bytes_[static_cast<std::size_t>(category)][static_cast<std::size_t>(tier)];
  cell = checked_add(cell, bytes);
}

void Footprint::add_buffer(BufferUse use, Tier tier, std::int64_t bytes) {
  add(Category::buffers, tier, bytes);
  buffers_[static_cast<std::size_t>(use)][static_cast<std::size_t>(tier)] += bytes;
}

std::int64_t Footprint::buffers(BufferUse use, Tier tier) const {
  return buffers_[static_cast<std::size_t>(use)][static_cast<std::size_t>(tier)];
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

// G is fp32 where several micro-steps add up in it.
GradientTypes gradient_types(const FootprintOptions& options) {
  const PrecisionOptions& precision = options.precision;
  const Stage& stage = stage_row(options.zero.stage);
  return {.accumulation = precision.accumulation(),
          .communication = precision.communication(),
          .reduced = precision.reduced(stage.reductions_add_up(options.micro_steps)),
          .scaled = precision.scales_alone()};
}

bool packs_buckets(const FootprintOptions& options) {
  return stage_row(options.zero.stage).gradients_accumulating == Placement::sharded ||
         options.precision.accumulation() != options.precision.communication();
}

bool overlaps_reductions(const FootprintOptions& options) {
  return options.zero.overlap_comm.value_or(stage_row(options.zero.stage).overlaps_by_default());
}

ReductionPlan reduction_plan(const ModelLayout& model, const FootprintOptions& options) {
  std::vector<std::int64_t> numels;
  for (const UnitLayout& unit : model.units()) {
    numels.push_back(unit.totals().trainable_padded_numel);
  }
  return plan_reductions(numels, {.bucket_numel = options.zero.reduce_bucket_numel,
                                  .dtype = options.precision.communication(),
                                  .overlap = overlaps_reductions(options),
                                  .root_unit = model.root_unit()});
}

Footprint footprint(const ModelLayout& model, const FootprintOptions& options) {
  return Accountant(model, options).run();
}

TierPlan tier_plan(const ModelLayout& model, const FootprintOptions& options) {
  return Accountant(model, options).tiers();
}

bool holds_all_gradients(const FootprintOptions& options, int ranks) {
  return options.offload.optimizer == Tier::device &&
         holds_gradients(options.precision.model(), gradient_types(options), ranks,
                         options.micro_steps);
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
      const TrafficBytes bytes =
          bytes_sent(group.layout, traffic,
                     {.parameters = group.dtype,
                      .reduced = options.precision.communication(),
                      .gathered_gradients = gradient_types(options).reduced});
      sum = checked_add(sum, checked_add(bytes.reduce, bytes.gather));
    }
  }
  return sum;
}

ModelLayout equal_units(std::int64_t parameters, int units, DType dtype, int world_size) {
  ZS_CHECK_GE(parameters, 0);
  ZS_CHECK_GE(units, 1);
  const auto unit_of = [&](std::int64_t numel) {
    return UnitLayout("unit", {{"weight", {numel}, dtype}}, world_size);
  };
  const UnitLayout smaller = unit_of(parameters / units), larger = unit_of(parameters / units + 1);
  std::vector<UnitLayout> layouts;
  for (int i = 0; i < units; ++i) {
    const bool has_more = i < parameters % units;
    layouts.push_back((has_more ? larger : smaller).alike("unit." + std::to_string(i)));
  }
  return ModelLayout(std::move(layouts));
}

}  // namespace zeroshard
