#include "zeroshard/planner/step_walk.h"

#include <algorithm>

#include "zeroshard/base/check.h"

namespace zeroshard {
namespace {

// After so many micro-steps all later ones are alike.
constexpr std::int64_t kWalkedMicroSteps = 3;

class Walk {
 public:
  explicit Walk(const WalkedStep& step)
      : step_(step),
        arrived_(step.units.size(), 0),
        reduced_(step.buckets.size(), 0),
        is_gathered_(step.units.size(), false),
        bucket_of_(step.units.size(), 0) {
    for (std::size_t b = 0; b < step.buckets.size(); ++b) {
      for (const std::size_t unit : step.buckets[b].units) bucket_of_[unit] = b;
    }
  }

  double run() {
    update();
    double least = std::max(step_.least_forward, step_.least_first_forward);
    for (std::int64_t done = 0; done + 1 < step_.micro_steps; ++done) {
      const double began = now_;
      forward(least);
      backward(step_.least_backward, step_.reduces_each);
      least = step_.least_forward;
      if (done + 1 == kWalkedMicroSteps) {
        skip(static_cast<double>(step_.micro_steps - 1 - kWalkedMicroSteps) * (now_ - began));
        break;
      }
    }
    forward(least);
    backward(std::max(step_.least_backward, step_.least_last_backward), true);
    agree();
    return now_;
  }

 private:
  // Called now, it begins when the network is free. Returns when it is over.
  double send(double seconds) {
    if (seconds == 0) return now_;
    network_ = std::max(network_, now_) + seconds;
    return network_;
  }
  void wait_until(double moment) { now_ = std::max(now_, moment); }
  void skip(double seconds) {
    now_ += seconds;
    network_ += seconds;
  }

  // Each unit's values travel while the next one is updated, and while forward has not come to it.
  // The root unit is used by whoever comes next.
  void update() {
    for (std::size_t i = 0; i < step_.units.size(); ++i) {
      now_ += step_.units[i].update;
      if (!step_.units[i].released) arrived_[i] = send(step_.units[i].gather);
    }
    if (step_.root_unit) wait_until(arrived_[*step_.root_unit]);
  }

  // A visit calls the gathers that are planned by then, and waits for its own.
  void reach(std::size_t unit, const GatherOrder& order) {
    if (step_.units[unit].released) {
      ZS_CHECK_LT(visited_, order.visits.size(), "unit {} is released, and no visit gathers it",
                  unit);
      for (; called_ < order.ends[visited_]; ++called_) {
        const std::size_t next = order.visits[called_];
        arrived_[next] = send(step_.units[next].gather);
      }
      ++visited_;
    }
    wait_until(arrived_[unit]);
  }

  void begin_phase() { visited_ = called_ = 0; }

  void forward(double least) {
    begin_phase();
    const double began = now_;
    for (std::size_t i = 0; i < step_.units.size(); ++i) {
      reach(i, step_.forward);
      now_ += step_.units[i].forward;
    }
    wait_until(began + least);
  }

  // The last micro-step's sums are there before this one's are begun.
  void backward(double least, bool reduces) {
    reduces = reduces && !step_.buckets.empty();
    begin_phase();
    wait_for_reductions();
    reducing_.clear();
    const double began = now_;
    for (std::size_t i = step_.units.size(); i-- > 0;) {
      reach(i, step_.backward);
      if (reduces && step_.root_unit != i) take_slot(i);
      now_ += step_.units[i].backward;
      if (reduces && step_.root_unit != i) complete(i);
    }
    wait_until(began + least);
    if (reduces && step_.root_unit) complete(*step_.root_unit);
  }

  // The first unit of a bucket fills a buffer whose last content has been reduced.
  void take_slot(std::size_t unit) {
    const bool is_first = step_.buckets[bucket_of_[unit]].units.front() == unit;
    if (!is_first || step_.bucket_slots == 0 || reducing_.size() < step_.bucket_slots) return;
    wait_until(reduced_[reducing_[reducing_.size() - step_.bucket_slots]]);
  }

  void complete(std::size_t unit) {
    const std::size_t bucket = bucket_of_[unit];
    if (step_.buckets[bucket].units.back() != unit || step_.buckets[bucket].reduce == 0) return;
    reduced_[bucket] = send(step_.buckets[bucket].reduce);
    if (step_.gathers_behind && !reducing_.empty()) gather_all_of(reducing_.back());
    reducing_.push_back(bucket);
  }

  void gather_all_of(std::size_t bucket) {
    wait_until(reduced_[bucket]);
    for (const std::size_t unit : step_.buckets[bucket].units) {
      gathered_ = send(step_.units[unit].gradient_gather);
      is_gathered_[unit] = true;
    }
  }

  void wait_for_reductions() {
    for (const std::size_t bucket : reducing_) wait_until(reduced_[bucket]);
  }

  // Ranks agree on the norm, and where all of G is wanted what is left of it is gathered: nothing
  // else happens meanwhile.
  void agree() {
    wait_for_reductions();
    wait_until(gathered_);
    wait_until(send(step_.agreement));
    for (std::size_t i = 0; i < step_.units.size(); ++i) {
      if (!is_gathered_[i]) wait_until(send(step_.units[i].gradient_gather));
    }
  }

  const WalkedStep& step_;
  std::vector<double> arrived_;    // a unit's parameters
  std::vector<double> reduced_;    // a bucket
  std::vector<bool> is_gathered_;  // all of G, of a unit
  std::vector<std::size_t> bucket_of_;
  std::vector<std::size_t> reducing_;  // in this backward
  std::size_t visited_ = 0;
  std::size_t called_ = 0;
  double now_ = 0;
  double network_ = 0;
  double gathered_ = 0;
};

}  // namespace

double walk_seconds(const WalkedStep& step) { return Walk(step).run(); }

}  // namespace zeroshard
