// The masters of what a rank owns of one flat group, in whichever form it has them
// (layout/tier_plan.h). The group's parameters, which may be a half of them, are the caller's: he
// says where the rank's elements of them lie.
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "zeroshard/layout/tier_plan.h"
#include "zeroshard/optim/update.h"
#include "zeroshard/tier/state_memory.h"

namespace zeroshard {

class GroupMasters {
 public:
  // Of `parameters` on `tier`; they are the parameters' values at first.
  GroupMasters(MasterForm form, Tier tier, const at::Tensor& parameters, StateMemory& memory);

  MasterForm form() const { return form_; }
  StateBuffer& memory() { return memory_; }

  // In fp32: the memory itself, or a copy where masters are in halves.
  at::Tensor values(const at::Tensor& parameters, std::int64_t begin, std::int64_t count) const;
  // Masters from `begin` on take these values, and in halves the parameters theirs with them.
  // Returns how many were ties that the parameter's dtype had to settle (halved_master.h).
  std::int64_t write(const at::Tensor& parameters, std::int64_t begin, const at::Tensor& values);
  // Parameters take the masters' values; halves have brought them already.
  void write_parameters(const at::Tensor& parameters) const;

  // Masters take the parameters' values, which somebody has written.
  void take_all(const at::Tensor& parameters);
  // The same where only some may have been written: of what is as it was, masters keep the digits
  // that a parameter has not. Halves know what was by keep_parameters(), before anybody wrote;
  // without it they keep all their digits. Scopes may be one inside the other.
  void keep_parameters(const at::Tensor& parameters);
  void take_changed(const at::Tensor& parameters);
  // What was written is to be forgotten. Whole masters bring the old values with the next update.
  void restore_parameters(const at::Tensor& parameters) const;
  void end_keeping();
  // An update has come while a scope is open: what it changed was not written by anybody, and what
  // is written from here on was.
  void keep_updated(const at::Tensor& parameters);

  // Where an update of `count` elements from `begin` on finds masters and parameters.
  void point(UpdateSpan& span, const at::Tensor& parameters, std::int64_t begin) const;

 private:
  std::uint16_t* low(std::int64_t begin) const {
    return static_cast<std::uint16_t*>(memory_.data()) + begin;
  }
  at::Tensor whole(const at::Tensor& parameters) const;
  void take_changed_whole(const at::Tensor& parameters);
  void copy_before(const at::Tensor& parameters);

  MasterForm form_;
  Tier tier_;
  StateMemory* states_;
  StateBuffer memory_;                 // none where the parameters are the masters
  std::optional<StateBuffer> before_;  // parameters as they were when a scope began
  int keepers_ = 0;                    // scopes that are open
};

}  // namespace zeroshard
