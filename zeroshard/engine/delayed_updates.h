// With zeroshard.delayed_update: updates of units on the host that go on during the whole next
// step. The next forward and backward compute with the parameters of the update before, which
// changes results; nothing waits for the host as long as it needs less time than the device.
//
//   updates.publish();                  // new values of the update before go up, in forward order
//   updates.start(unit, work);          // in backward's order, because G is wanted again so
//   updates.wait(unit);                 // before anybody writes the unit's G
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "zeroshard/comm/handle.h"
#include "zeroshard/engine/host_updates.h"

namespace zeroshard {

class DelayedUpdates {
 public:
  // New values are on their way to the unit's parameters.
  using Expect = std::function<void(std::size_t unit, Handle sent)>;
  DelayedUpdates(HostUpdates& host, std::size_t units, Expect expect)
      : host_(host), expect_(std::move(expect)), units_(units) {}

  // Of units whose masters are new: their values go up, `first` first, then in forward order.
  void publish(std::optional<std::size_t> first);
  void start(std::size_t unit, HostUpdates::Work work);
  void wait(std::size_t unit) const;
  // What is under way ends, and nobody hears of its error.
  void settle() noexcept;
  bool under_way() const;

 private:
  struct Unit {
    Handle updated = {};
    std::optional<HostUpdates::Work> unpublished = {};
  };
  void publish_unit(std::size_t unit);

  HostUpdates& host_;
  const Expect expect_;
  std::vector<Unit> units_;
};

}  // namespace zeroshard
