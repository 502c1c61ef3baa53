// A core's states as checkpoints see them (tensor_state.h).
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "zeroshard/device/stream.h"
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
  std::int64_t write(const HeldState& state, const Span& elements, const void* from,
                     DType dtype) override;
  void set_updates(std::size_t tensor, std::int64_t updates) override;

  void begin_reading(const std::set<std::size_t>& units) override;
  void begin_reading_frozen() override { core_.gate().close_frozen(); }
  void end_reading(std::size_t unit) override { core_.gate().open(unit); }
  void end_reading() noexcept override { core_.gate().open_all(); }
  std::chrono::nanoseconds waited() const override { return core_.gate().waited(); }

 private:
  // A parameter in its unit.
  struct Place {
    std::size_t unit = 0;
    std::size_t parameter = 0;
  };

  void order_reads();
  void append_unit(std::size_t unit);
  void append_parameter(const Place& place);
  void append_states(HeldState first, std::vector<HeldState>& all) const;
  at::Tensor memory_of(const HeldState& state, std::int64_t begin, std::int64_t count) const;
  void copy_out(const HeldState& state, const Span& elements, void* into) const;

  Core& core_;
  OptimizerStates& states_;
  const std::optional<Stream> side_;  // of an accelerator: who reads is not in training's order
  std::vector<Place> places_;         // of each tensor
  std::vector<TensorRecord> tensors_;
  std::vector<HeldState> owned_;
  std::vector<HeldState> held_;
};

}  // namespace zeroshard
