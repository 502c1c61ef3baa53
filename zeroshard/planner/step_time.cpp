#include "zeroshard/planner/step_time.h"

#include <algorithm>

#include "zeroshard/layout/placement.h"
#include "zeroshard/layout/reduction_plan.h"
#include "zeroshard/layout/traffic.h"

namespace zeroshard {
namespace {

// What a rank owns and updates, in elements, by where its states lie.
struct Owned {
  double device = 0;
  double host = 0;
};

// Estimates one step from its parts.
class StepClock {
 public:
  explicit StepClock(const StepFacts& facts)
      : facts_(facts),
        options_(facts.options),
        stage_(stage_row(options_.zero.stage)),
        tiers_(tier_plan(facts.model, options_)),
        ranks_(facts.model.units().empty() ? 1 : facts.model.units().front().world_size()),
        micro_steps_(static_cast<double>(options_.micro_steps)) {
    for (std::size_t i = 0; i < facts.model.units().size(); ++i) {
      const LayoutTotals& totals = facts.model.units()[i].totals();
      const bool sharded = stage_.optimizer_states == Placement::sharded;
      const auto numel = static_cast<double>(sharded ? totals.trainable_shard_numel
                                                     : totals.trainable_padded_numel);
      (tiers_.optimizer(i) == Tier::host ? owned_.host : owned_.device) += numel;
    }
  }

  StepEstimate run() {
    StepEstimate time;
    for (const UnitActivations& use : facts_.activations.uses) {
      time.forward += seconds(use.forward_work);
      time.backward += seconds(use.backward_work);
    }
    time.backward += gradient_seconds();
    time.update = update_seconds();
    time.network = network_seconds();
    time.host = host_seconds();
    const double down = down_bytes() / facts_.rates.copy_down_bytes.value;
    const double up = up_bytes() / facts_.rates.copy_up_bytes.value;
    time.copies = std::max(down, up);
    time.step = together(time, down, up);
    return time;
  }

  double network_seconds() const {
    if (ranks_ == 1) return 0;
    const bool far = ranks_ > facts_.ranks_per_node;
    const double near = facts_.rates.near_bytes.value;
    const double rate = far ? std::min(near, facts_.rates.far_bytes.value) : near;
    const auto bytes = static_cast<double>(bytes_sent_per_step(facts_.model, options_));
    return bytes / rate + collectives() * facts_.rates.collective_seconds.value;
  }

 private:
  bool accelerated() const { return options_.accelerator; }
  double width() const { return static_cast<double>(bytes_of(options_.precision.model())); }

  double reduced_width() const {
    return static_cast<double>(
        bytes_of(options_.precision.reduced(stage_.reductions_add_up(options_.micro_steps))));
  }

  // A device begins operators while it works on others.
  double seconds(const Work& work) const {
    const Rates& rates = facts_.rates;
    const Rate& products = width() < 4 ? rates.product_flops_16 : rates.product_flops_32;
    const double busy =
        work.product_flops / products.value + work.moved_bytes / rates.device_bytes.value;
    const double beginning = work.operators * rates.operator_seconds.value;
    return accelerated() ? std::max(busy, beginning) : busy + beginning;
  }

  // Gradients are read, and written or added where they are kept.
  double gradient_seconds() const {
    const bool held = ranks_ == 1 && options_.micro_steps == 1;
    if (held) return 0;
    const auto numel = static_cast<double>(facts_.model.totals().trainable_numel);
    return 3 * numel * width() / facts_.rates.device_bytes.value;
  }

  // Of one element: G is read, once more for the norm; master and moments are read and written, and
  // a 16-bit parameter is written.
  double update_bytes() const {
    const double states = 2 * 4.0 * (1 + options_.moments_per_parameter);
    return 2 * reduced_width() + states + (width() < 4 ? width() : 0);
  }

  double update_seconds() const {
    const Rate& rate = accelerated() ? facts_.rates.device_bytes : facts_.rates.host_update_bytes;
    return owned_.device * update_bytes() / rate.value;
  }

  double host_seconds() const {
    return owned_.host * update_bytes() / facts_.rates.host_update_bytes.value;
  }

  double collectives() const {
    std::vector<std::int64_t> numels;
    for (const UnitLayout& unit : facts_.model.units()) {
      numels.push_back(unit.totals().trainable_padded_numel);
    }
    const ReductionPlan plan =
        plan_reductions(numels, {.bucket_numel = options_.zero.reduce_bucket_numel,
                                 .dtype = options_.precision.communication(),
                                 .root_unit = facts_.model.root_unit()});
    const Traffic traffic = traffic_per_step(stage_, static_cast<int>(options_.micro_steps), {});
    return static_cast<double>(traffic.reduces) * static_cast<double>(plan.buckets.size()) +
           static_cast<double>(traffic.gathers()) *
               static_cast<double>(facts_.model.units().size());
  }

  // Gradients of what is updated on the host.
  double down_bytes() const {
    const bool each_micro_step = stage_.reductions_add_up(options_.micro_steps);
    return owned_.host * (each_micro_step ? micro_steps_ * width() : reduced_width());
  }

  // New values, and shards that lie on the host, for each forward and backward.
  double up_bytes() const {
    if (tiers_.parameters != Tier::host) return owned_.host * width();
    const auto shards = static_cast<double>(facts_.model.totals().shard_bytes);
    return 2 * micro_steps_ * shards;
  }

  // While the device goes backward gradients go down; while it goes forward the host updates, and
  // new values go up (docs/offload.md). Communication hides behind both where it is overlapped.
  double together(const StepEstimate& time, double down, double up) const {
    const bool params = tiers_.parameters == Tier::host;
    const double up_each = params ? up / (2 * micro_steps_) : 0;
    const double forward = std::max(time.forward, up_each);
    const double backward = std::max(time.backward, up_each);
    const double up_at_last = params ? 0 : up;
    const double compute = (micro_steps_ - 1) * (forward + backward) + std::max(backward, down) +
                           std::max({forward, time.host, up_at_last}) + time.update;
    const bool overlaps = options_.zero.overlap_comm.value_or(stage_.overlaps_by_default());
    return overlaps ? std::max(compute, time.network) : compute + time.network;
  }

  const StepFacts& facts_;
  const FootprintOptions& options_;
  const Stage& stage_;
  const TierPlan tiers_;
  const int ranks_;
  const double micro_steps_;
  Owned owned_;
};

}  // namespace

std::string_view name_of(Bottleneck bottleneck) {
  switch (bottleneck) {
    case Bottleneck::compute: return "compute";
    case Bottleneck::network: return "network";
    case Bottleneck::copies: return "PCIe";
    case Bottleneck::host: return "host memory";
  }
  return "?";
}

Bottleneck StepEstimate::bottleneck(std::int64_t micro_steps) const {
  const std::array<double, 4> seconds{compute(micro_steps), network, copies, host};
  const auto longest = std::ranges::max_element(seconds);
  return kBottlenecks[static_cast<std::size_t>(longest - seconds.begin())];
}

StepEstimate step_time(const StepFacts& facts) { return StepClock(facts).run(); }

double network_seconds(const StepFacts& facts) { return StepClock(facts).network_seconds(); }

}  // namespace zeroshard
