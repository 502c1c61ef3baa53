#include "zeroshard/planner/step_time.h"

#include <algorithm>

#include "zeroshard/layout/placement.h"
#include "zeroshard/planner/collective_time.h"
#include "zeroshard/planner/step_messages.h"
#include "zeroshard/planner/step_walk.h"

namespace zeroshard {
namespace {

// Estimates one step from its parts.
class StepClock {
 public:
  explicit StepClock(const StepFacts& facts)
      : facts_(facts),
        options_(facts.options),
        stage_(stage_row(options_.zero.stage)),
        tiers_(tier_plan(facts.model, options_)),
        topology_{
            .ranks = facts.model.units().empty() ? 1 : facts.model.units().front().world_size(),
            .ranks_per_node = facts.ranks_per_node,
            .nics_per_node = facts.nics_per_node},
        messages_(step_messages(facts.model, options_)),
        micro_steps_(static_cast<double>(options_.micro_steps)) {
    for (std::size_t i = 0; i < facts.model.units().size(); ++i) {
      if (tiers_.optimizer(i) == Tier::host) owned_on_host_ += owned_by(i);
    }
  }

  StepEstimate run() {
    WalkedStep step = computed_step();
    StepEstimate time;
    for (const WalkedUnit& unit : step.units) {
      time.forward += unit.forward;
      time.backward += unit.backward;
      time.update += unit.update;
    }
    time.network = network_seconds();
    time.host = host_seconds();
    const double down = down_bytes() / facts_.rates.copy_down_bytes.value;
    const double up = up_bytes() / facts_.rates.copy_up_bytes.value;
    time.copies = std::max(down, up);
    set_least(step, time.host, down, up);
    const double alone = walk_seconds(step);
    time.step = alone + time.network;
    if (overlaps_reductions(options_)) {
      add_messages(step);
      time.step = walk_seconds(step);
    }
    time.exposed = time.step - alone;
    return time;
  }

  double network_seconds() const {
    double sum = agreement_seconds();
    for (const UnitMessages& unit : messages_.units) {
      sum += static_cast<double>(unit.parameter_gathers) * gather_seconds(unit.parameter_bytes);
      sum += static_cast<double>(unit.gradient_gathers) * gather_seconds(unit.gradient_bytes);
    }
    for (const BucketMessages& bucket : messages_.buckets) {
      sum += static_cast<double>(bucket.reduces) * reduce_seconds(bucket.bytes);
    }
    return sum;
  }

 private:
  bool accelerated() const { return options_.accelerator; }
  double width() const { return static_cast<double>(bytes_of(options_.precision.model())); }

  double reduced_width() const {
    return static_cast<double>(
        bytes_of(options_.precision.reduced(stage_.reductions_add_up(options_.micro_steps))));
  }

  // What a rank updates of a unit, in elements.
  double owned_by(std::size_t unit) const {
    const LayoutTotals& totals = facts_.model.units()[unit].totals();
    const bool sharded = stage_.optimizer_states == Placement::sharded;
    return static_cast<double>(sharded ? totals.trainable_shard_numel
                                       : totals.trainable_padded_numel);
  }

  double gather_seconds(std::int64_t bytes) const {
    return collective_seconds(topology_, facts_.rates, gather_route(accelerated()), bytes);
  }
  double reduce_seconds(std::int64_t bytes) const {
    const Route route = reduce_route(accelerated(), options_.zero.deterministic);
    return collective_seconds(topology_, facts_.rates, route, bytes);
  }
  // Of the norm: a few numbers.
  double agreement_seconds() const {
    return messages_.units.empty()
               ? 0
               : latency_seconds(topology_, facts_.rates, gather_route(accelerated()));
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
  double gradient_seconds(std::size_t unit) const {
    const bool held = topology_.ranks == 1 && options_.micro_steps == 1;
    if (held) return 0;
    const LayoutTotals& totals = facts_.model.units()[unit].totals();
    const auto numel = static_cast<double>(totals.trainable_numel);
    return 3 * numel * width() / facts_.rates.device_bytes.value;
  }

  // Of one element: G is read, once more for the norm; master and moments are read and written, and
  // a 16-bit parameter is written.
  double update_bytes() const {
    const double states = 2 * 4.0 * (1 + options_.moments_per_parameter);
    return 2 * reduced_width() + states + (width() < 4 ? width() : 0);
  }

  double update_seconds(std::size_t unit) const {
    if (tiers_.optimizer(unit) == Tier::host) return 0;
    const Rate& rate = accelerated() ? facts_.rates.device_bytes : facts_.rates.host_update_bytes;
    return owned_by(unit) * update_bytes() / rate.value;
  }

  double host_seconds() const {
    return owned_on_host_ * update_bytes() / facts_.rates.host_update_bytes.value;
  }

  // Gradients of what is updated on the host.
  double down_bytes() const {
    const bool each_micro_step = stage_.reductions_add_up(options_.micro_steps);
    return owned_on_host_ * (each_micro_step ? micro_steps_ * width() : reduced_width());
  }

  // New values, and shards that lie on the host, for each forward and backward.
  double up_bytes() const {
    if (tiers_.parameters != Tier::host) return owned_on_host_ * width();
    const auto shards = static_cast<double>(facts_.model.totals().shard_bytes);
    return 2 * micro_steps_ * shards;
  }

  // What the device does. Of several uses of a unit the work counts in its place in the model.
  WalkedStep computed_step() const {
    WalkedStep step{.units = std::vector<WalkedUnit>(facts_.model.units().size()),
                    .root_unit = facts_.model.root_unit(),
                    .micro_steps = options_.micro_steps};
    for (const UnitActivations& use : facts_.activations.uses) {
      step.units[use.unit].forward += seconds(use.forward_work);
      step.units[use.unit].backward += seconds(use.backward_work);
    }
    for (std::size_t i = 0; i < step.units.size(); ++i) {
      step.units[i].backward += gradient_seconds(i);
      step.units[i].update = update_seconds(i);
    }
    return step;
  }

  // While the device goes backward gradients go down; while it goes forward the host updates, and
  // new values go up (docs/offload.md).
  void set_least(WalkedStep& step, double host, double down, double up) const {
    const bool params = tiers_.parameters == Tier::host;
    const double up_each = params ? up / (2 * micro_steps_) : 0;
    step.least_forward = step.least_backward = up_each;
    step.least_first_forward = std::max(host, params ? 0 : up);
    step.least_last_backward = down;
  }

  void add_messages(WalkedStep& step) const {
    for (std::size_t i = 0; i < messages_.units.size(); ++i) {
      const UnitMessages& unit = messages_.units[i];
      step.units[i].released = unit.released;
      if (unit.parameter_gathers > 0) step.units[i].gather = gather_seconds(unit.parameter_bytes);
      if (unit.gradient_gathers > 0) {
        step.units[i].gradient_gather = gather_seconds(unit.gradient_bytes);
      }
    }
    for (const BucketMessages& bucket : messages_.buckets) {
      step.buckets.push_back({bucket.units, bucket.reduces > 0 ? reduce_seconds(bucket.bytes) : 0});
      step.reduces_each = step.reduces_each || bucket.reduces > 1;
    }
    step.gathers_behind = stage_.gradients_reduced == Placement::replicated &&
                          tiers_.first_host_unit >= step.units.size();
    step.bucket_slots = messages_.bucket_slots;
    step.forward = messages_.forward;
    step.backward = messages_.backward;
    step.agreement = agreement_seconds();
  }

  const StepFacts& facts_;
  const FootprintOptions& options_;
  const Stage& stage_;
  const TierPlan tiers_;
  const Topology topology_;
  const StepMessages messages_;
  const double micro_steps_;
  double owned_on_host_ = 0;
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
