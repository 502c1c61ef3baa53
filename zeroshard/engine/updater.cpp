#include "zeroshard/engine/updater.h"

#include <utility>

#include "zeroshard/base/cpu_limit.h"
#include "zeroshard/optim/sum_of_squares.h"
#include "zeroshard/optim/update_tensors.h"

namespace zeroshard {

Updater::Updater(std::vector<FlatUnit*> units, UpdaterOptions options, Gatherer& gatherer,
                 Reducer& reducer, StateMemory& memory)
    : units_(std::move(units)),
      options_(std::move(options)),
      gatherer_(gatherer),
      reducer_(reducer),
      memory_(memory),
      pool_(options_.threads > 0 ? options_.threads : usable_cpus()) {
  states_ = std::make_unique<OptimizerStates>(units_, options_.parameter_groups, options_.moments,
                                              options_.stage, memory_, pool_);
  if (options_.callers) {
    master_segments_ =
        master_segments_of(units_, options_.parameter_groups, *states_, options_.stage);
  }
}

double Updater::sum_of_squares() {
  double sum = 0.0;
  for (const Reducer::UnitGradients& unit : reducer_.units()) {
    for (const GradientGroup& group : unit.groups) {
      const Piece own = group.own_reduced();
      sum += memory_.device() == kCpu
                 ? zeroshard::sum_of_squares(own.data, own.dtype, own.count, pool_)
                 : sum_of_squares_on(memory_.device(), own.data, own.dtype, own.count);
    }
  }
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

void Updater::apply(const std::vector<bool>& present, const UpdateSettings& settings) {
  note_without_gradient(present);
  if (options_.callers) {
    update_by_caller(by_unit(present), settings.gradient_factor);
  } else {
    update_by_kernels(by_unit(present), settings);
  }
}

// In forward order: the next forward waits for each unit as it comes to it, and for no more.
void Updater::update_by_kernels(const ByUnit& present, const UpdateSettings& settings) {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    gatherer_.wait(i);
    {
      const Trace::Scope scope(options_.trace, Lane::optimizer, "update", units_[i]->name());
      states_->update(i, reducer_.units()[i], present[i], settings);
    }
    send_values(i);
  }
}

void Updater::update_by_caller(const ByUnit& present, float factor) {
  gatherer_.wait_for_all();
  std::vector<at::Tensor> gradients;
  for (const MasterSegment& segment : master_segments_) {
    gradients.push_back(
        master_gradient(segment, reducer_.units()[segment.unit], present[segment.unit], factor));
  }
  {
    const Trace::Scope scope(options_.trace, Lane::optimizer, "update");
    options_.callers(gradients);
  }
  for (std::size_t i = 0; i < units_.size(); ++i) adopt_masters(i);
}

void Updater::adopt_masters(std::size_t unit) {
  states_->write_parameters(unit);
  send_values(unit);
}

void Updater::send_values(std::size_t unit) {
  if (options_.stage.optimizer_states == Placement::sharded) gatherer_.refresh(unit);
}

}  // namespace zeroshard
