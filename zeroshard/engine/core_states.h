// A core's states as checkpoints see them (tensor_state.h).
#pragma once

#include <vector>

#include "zeroshard/engine/core.h"
#include "zeroshard/engine/tensor_state.h"

namespace zeroshard {

class CoreStates final : public TensorStates {
 public:
  // As after step(): waits for updates that are under way. The core must outlive it.
  explicit CoreStates(Core& core);

  const std::vector<TensorRecord>& tensors() const override { return tensors_; }
  const std::vector<HeldState>& owned() const override { return owned_; }
  const std::vector<HeldState>& held() const override { return held_; }

  void read(const HeldState& state, const Span& elements, void* into) const override;
  void write(const HeldState& state, const Span& elements, const void* from, DType dtype) override;
  void set_updates(std::size_t tensor, std::int64_t updates) override;

 private:
  // A parameter in its unit.
  struct Place {
    std::size_t unit = 0;
    std::size_t parameter = 0;
  };

  void append_unit(std::size_t unit);
  void append_parameter(const Place& place);
  void append_states(HeldState first, std::vector<HeldState>& all) const;
  at::Tensor memory_of(const HeldState& state, std::int64_t begin, std::int64_t count) const;

  Core& core_;
  OptimizerStates& states_;
  std::vector<Place> places_;  // of each tensor
  std::vector<TensorRecord> tensors_;
  std::vector<HeldState> owned_;
  std::vector<HeldState> held_;
};

}  // namespace zeroshard
