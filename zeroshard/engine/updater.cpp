#include "zeroshard/engine/updater.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "zeroshard/layout/norm_blocks.h"
#include "zeroshard/numeric/arrays.h"
#include "zeroshard/numeric/masters.h"
#include "zeroshard/optim/sum_of_squares.h"
#include "zeroshard/optim/update.h"

namespace zeroshard {

Updater::Updater(std::vector<FlatUnit*> units, UpdaterOptions options, const Parts& parts)
    : units_(std::move(units)),
      options_(std::move(options)),
      of_(parts),
      device_(parts.memory.device()),
      pool_(parts.pool),
      norm_(device_) {
  states_ = std::make_unique<OptimizerStates>(
      units_, options_.parameter_groups,
      OptimizerStates::Plan{.moments = options_.moments,
                            .stage = options_.stage,
                            .tiers = options_.tiers,
                            .halves_masters = options_.halves_masters},
      of_.memory);
  if (options_.callers) {
    master_segments_ =
        master_segments_of(units_, options_.parameter_groups, *states_, options_.stage);
  } else if (options_.tiers.first_host_unit < units_.size()) {
    host_updates_ = std::make_unique<HostUpdates>(
        device_, *of_.staging,
        of_.memory.allocate_apart(Category::buffers, Tier::host, options_.tiers.unsent_bytes,
                                  /*pin=*/false),
        pool_, options_.trace);
    if (options_.delays) {
      delayed_ = std::make_unique<DelayedUpdates>(
          *host_updates_, units_.size(),
          [this](std::size_t unit, Handle sent) { of_.gatherer.expect(unit, std::move(sent)); });
    }
    if (options_.tiers.undo_bytes > 0) {
      speculation_ = std::make_unique<SpeculativeUpdates>(
          units_, options_.tiers, options_.stage, options_.moments,
          SpeculativeUpdates::Parts{*states_, of_.memory, pool_, host_updates_->worker()});
    }
  }
  const bool moves_down = options_.tiers.parameters == Tier::host &&
                          options_.tiers.first_host_unit > 0 && !options_.callers;
  if (moves_down) {
    values_down_ = std::make_unique<ValuesDown>(options_.tiers.values_down, of_.memory, pool_);
  }
  if (device_ != kCpu) prepare_device();
}

void Updater::prepare_device() {
  load_array_kernels(device_);
  load_norm_kernels(device_);
  if (!options_.callers) load_update_kernels(device_);
  if (states_->halves_some()) load_master_kernels(device_);
  std::vector<std::int64_t> counts;
  for (const NormSpan& span : norm_spans_on_device()) counts.push_back(span.count);
  norm_scratch_ = of_.memory.allocate(Category::buffers, Tier::device, norm_scratch_bytes(counts));
}

std::vector<const GradientGroup*> Updater::gradients_on(Tier tier) const {
  std::vector<const GradientGroup*> all;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (options_.tiers.optimizer(i) != tier) continue;
    for (const GradientGroup& group : of_.reducer.units()[i].groups) all.push_back(&group);
  }
  return all;
}

std::vector<NormSpan> Updater::norm_spans_on_device() const {
  std::vector<NormSpan> all;
  for (const GradientGroup* group : gradients_on(Tier::device)) all.push_back(group->norm_span());
  return all;
}

// Unit by unit, those on the device first, which is their order: where G lies changes no bit.
double Updater::sum_of_squares() {
  of_.gradient_order.before_write();  // whatever streams have brought gradients
  if (device_ != kCpu) norm_.start(norm_spans_on_device(), norm_scratch_.data());
  std::vector<double> on_host;
  for (const GradientGroup* group : gradients_on(Tier::host)) {
    const std::optional<double> known = group->sum_of_squares();
    on_host.push_back(known ? *known : zeroshard::sum_of_squares(group->norm_span(), pool_));
  }
  double sum = device_ == kCpu ? 0.0 : norm_.finish();
  if (device_ == kCpu) {
    for (const NormSpan& span : norm_spans_on_device()) {
      sum += zeroshard::sum_of_squares(span, pool_);
    }
  }
  for (const double one : on_host) sum += one;
  return sum;
}

Updater::ByUnit Updater::by_unit(const std::vector<bool>& present) const {
  ByUnit all;
  auto next = present.begin();
  for (const FlatUnit* unit : units_) {
    const auto count = static_cast<std::ptrdiff_t>(unit->parameters().size());
    all.emplace_back(next, next + count);
    next += count;
  }
  return all;
}

const std::vector<std::string>& Updater::note_without_gradient(const std::vector<bool>& present) {
  without_gradient_.clear();
  auto next = present.begin();
  for (const FlatUnit* unit : units_) {
    for (const NamedParameter& parameter : unit->parameters()) {
      if (!*next++ && parameter.trained()) without_gradient_.push_back(parameter.name);
    }
  }
  return without_gradient_;
}

void Updater::begin_speculation(const UpdateSettings& settings) {
  if (speculation_) speculation_->begin(settings);
}

void Updater::offer_early(std::size_t unit, std::function<void()> is_there) {
  if (speculation_) speculation_->offer(unit, of_.reducer.units()[unit], std::move(is_there));
}

void Updater::take_back_speculation() {
  if (speculation_) speculation_->take_back();
}

void Updater::note_step(bool calm) {
  if (speculation_) speculation_->note_step(calm);
}

void Updater::apply(const std::vector<bool>& present, const UpdateSettings& settings) {
  if (speculation_ && !speculation_->stand(settings)) speculation_->take_back();
  note_without_gradient(present);
  of_.parameter_order.before_write();
  const ByUnit here = by_unit(present);
  if (options_.callers) return update_by_caller(here, settings.gradient_factor);
  if (host_updates_) start_host_updates(here, settings);
  device_ == kCpu ? update_on_cpu(here, settings) : update_on_accelerator(here, settings);
}

// In forward order: the next forward waits for each unit as it comes to it, and for no more.
void Updater::update_on_cpu(const ByUnit& present, const UpdateSettings& settings) {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (!is_on_host(i)) {
      of_.gate.wait(i);
      of_.gatherer.wait(i);
      const Trace::Scope scope(options_.trace, Lane::optimizer, "update", units_[i]->name());
      const std::vector<SegmentUpdate> segments =
          states_->next_update(i, of_.reducer.units()[i], present[i], settings);
      if (sends_down(i)) {
        of_.gatherer.expect(i, values_down_->update(segments));
      } else {
        for (const SegmentUpdate& each : segments) {
          update_span(*each.options, each.span, each.scalars, pool_);
        }
      }
    }
    send_values(i);
  }
}

// One launch for all units; or one for each, where its values travel while the next is updated.
void Updater::update_on_accelerator(const ByUnit& present, const UpdateSettings& settings) {
  const Trace::Scope scope(options_.trace, Lane::optimizer, "update");
  std::vector<SegmentUpdate> waiting;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (!is_on_host(i)) {
      of_.gate.wait(i);
      of_.gatherer.wait(i);
      std::vector<SegmentUpdate> segments =
          states_->next_update(i, of_.reducer.units()[i], present[i], settings);
      if (sends_down(i)) {
        of_.gatherer.expect(i, values_down_->update(segments));
      } else {
        std::ranges::move(segments, std::back_inserter(waiting));
      }
    }
    const bool last = i + 1 == units_.size();
    if ((sends_values() || last) && !waiting.empty()) {
      update_on(device_, std::exchange(waiting, {}));
    }
    send_values(i);
  }
}

// The root unit first, because whoever calls step() waits for it; then in forward order.
void Updater::start_host_updates(const ByUnit& present, const UpdateSettings& settings) {
  host_updates_->begin_step();
  const auto kept = std::make_shared<const UpdateSettings>(settings);
  if (delayed_) send_delayed();
  const std::size_t root = options_.root_unit.value_or(units_.size());
  if (root < units_.size()) start_host_update(root, present[root], kept);
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (i != root) start_host_update(i, present[i], kept);
  }
  if (delayed_) start_delayed(present, kept);
}

void Updater::start_host_update(std::size_t unit, const std::vector<bool>& present,
                                const std::shared_ptr<const UpdateSettings>& settings) {
  if (!is_on_host(unit) || is_delayed(unit)) return;
  of_.gatherer.wait(unit);
  HostUpdates::Work work = work_of(unit, present, settings);
  if (!work.segments.empty()) of_.gatherer.expect(unit, host_updates_->update(std::move(work)));
}

// Behind the new values' way up, in backward's order.
void Updater::start_delayed(const ByUnit& present,
                            const std::shared_ptr<const UpdateSettings>& settings) {
  for (std::size_t i = units_.size(); i > 0;) {
    --i;
    if (is_delayed(i)) delayed_->start(i, work_of(i, present[i], settings));
  }
}

HostUpdates::Work Updater::work_of(std::size_t unit, const std::vector<bool>& present,
                                   const std::shared_ptr<const UpdateSettings>& settings) {
  HostUpdates::Work work{.settings = settings,
                         .parameters = units_[unit]->shard_device(),
                         .parameter_tier = units_[unit]->options().tier,
                         .unit = units_[unit]->name(),
                         .when_may_begin = [this, unit] { of_.gate.wait(unit); }};
  if (auto done = speculation_ ? speculation_->take_over(unit) : std::nullopt) {
    work.segments = std::move(done->segments);
    work.settings = std::move(done->settings);
    work.left_out = std::move(done->undo);
    work.part = HostUpdates::Part::send;
  } else {
    work.segments = states_->next_update(unit, of_.reducer.units()[unit], present, *settings);
  }
  return work;
}

void Updater::wait_for_delayed(std::size_t unit) const {
  if (delayed_) delayed_->wait(unit);
}

void Updater::wait_for_delayed() const {
  for (std::size_t i = 0; i < units_.size(); ++i) wait_for_delayed(i);
}

bool Updater::publish_delayed() {
  if (!delayed_ || !delayed_->under_way()) return false;
  of_.parameter_order.before_write();
  host_updates_->begin_step();
  send_delayed();
  for (std::size_t i = 0; i < units_.size(); ++i) send_values(i);
  return true;
}

// The gathers of the values before have read what is overwritten now.
void Updater::send_delayed() {
  for (std::size_t i = 0; i < units_.size(); ++i) of_.gatherer.wait(i);
  delayed_->publish(options_.root_unit);
}

void Updater::settle_delayed() noexcept {
  if (delayed_) delayed_->settle();
}

bool Updater::sends_values() const {
  return options_.stage.optimizer_states == Placement::sharded &&
         units_.front()->options().world_size > 1;
}

void Updater::update_by_caller(const ByUnit& present, float factor) {
  of_.gate.wait_for_all();
  of_.gatherer.wait_for_all();
  std::vector<at::Tensor> gradients;
  for (const MasterSegment& segment : master_segments_) {
    gradients.push_back(
        master_gradient(segment, of_.reducer.units()[segment.unit], present[segment.unit], factor));
  }
  {
    const Trace::Scope scope(options_.trace, Lane::optimizer, "update");
    options_.callers(gradients);
  }
  for (std::size_t i = 0; i < units_.size(); ++i) adopt_masters(i);
}

void Updater::drop_buffers() {
  if (values_down_) values_down_->drop_buffers();
}

void Updater::point_master_segments(bool here) {
  for (const MasterSegment& segment : master_segments_) {
    void* const data =
        here ? states_->masters(segment.unit, segment.group).mutable_data_ptr() : nullptr;
    segment.master.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
        c10::DataPtr(data, segment.master.device()));
  }
}

void Updater::adopt_masters(std::size_t unit) {
  states_->write_parameters(unit);
  send_values(unit);
}

void Updater::send_values(std::size_t unit) {
  if (sends_values() || units_[unit]->options().tier == Tier::host) of_.gatherer.refresh(unit);
}

}  // namespace zeroshard
