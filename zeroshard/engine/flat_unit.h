// A unit's parameters as views into one flat buffer per flat group, and the rank's shard of them.
//
// The storage objects are made once and stay: gathering and releasing only change where they point.
// So parameters, views of them and what autograd has saved remain valid, and nothing is copied in
// or out. All writes go through plain memory or `.data()`: version counters stand still.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/engine/empty_parameter.h"
#include "zeroshard/engine/released_memory.h"
#include "zeroshard/engine/torch_version.h"
#include "zeroshard/engine/unit_state.h"
#include "zeroshard/layout/placement.h"
#include "zeroshard/layout/unit_layout.h"
#include "zeroshard/tier/state_memory.h"

namespace zeroshard {

struct NamedParameter {
  std::string name;
  at::Tensor tensor;    // the leaf that the model holds
  bool frozen = false;  // left alone, even where it requires a gradient

  bool trained() const { return tensor.requires_grad() && !frozen; }
};

// What the engine is given: it knows no modules.
struct UnitSpec {
  std::string name;
  std::vector<NamedParameter> parameters;
  // False for a root unit that nobody can announce before it is used: it is never released.
  bool has_call_point = true;
};

struct FlatUnitOptions {
  int rank = 0;
  int world_size = 1;
  std::optional<DType> dtype = {};  // floating parameters become this; unset: as they are
  // Whether the rank keeps full parameters at all times, and not just its shard.
  bool resident = true;
  Tier tier = Tier::device;  // of the shard; a resident unit is on the device
  bool poison = false;  // on an accelerator, where no address faults: released memory reads as NaN
  bool empties_released = false;  // a released parameter has no elements

  bool operator==(const FlatUnitOptions&) const = default;
};

class FlatUnit {
 public:
  // Takes the parameters' values over and makes them views of the new storages. Sharded units are
  // released from then on.
  FlatUnit(const UnitSpec& spec, const FlatUnitOptions& options,
           std::shared_ptr<StateMemory> memory);
  // Parameters stay usable where the unit had them in full; else they are empty from here on.
  ~FlatUnit();
  FlatUnit(const FlatUnit&) = delete;
  FlatUnit& operator=(const FlatUnit&) = delete;

  // Once the tree is complete, names are known.
  void rename(const std::string& unit, const std::vector<std::string>& parameters);
  const std::shared_ptr<StateMemory>& memory() const { return memory_; }
  bool has_call_point() const { return has_call_point_; }

  const std::string& name() const { return layout_.name(); }
  const UnitLayout& layout() const { return layout_; }
  const std::vector<NamedParameter>& parameters() const { return parameters_; }
  const FlatUnitOptions& options() const { return options_; }
  bool resident() const { return options_.resident; }
  ParameterState state() const { return state_; }
  std::size_t groups() const { return layout_.groups().size(); }

  // The rank's span of a group, which is a part of the full buffer where the unit is resident.
  void* shard(std::size_t group) const;
  // Where it lies just now.
  Device shard_device() const { return groups_.empty() ? device_ : groups_.front().owned.device(); }
  Piece shard_piece(std::size_t group) const;
  std::int64_t shard_begin(std::size_t group) const {
    return layout_.groups()[group].layout.shard(options_.rank).begin();
  }
  int rank() const { return options_.rank; }
  // A group's full buffer. Only while the unit is not sharded.
  void* full(std::size_t group) const;

  Piece full_piece(std::size_t group) const;

  // sharded -> gathering, into memory of gathered_bytes() that the caller keeps until release().
  void begin_gather(void* full_memory);
  // ready -> gathering, of a unit that is here in full and whose shard has changed.
  void begin_refresh() { move_to(state_, ParameterState::gathering, name()); }
  void end_gather() { move_to(state_, ParameterState::ready, name()); }
  // A use begins. Until then a unit that is gathered looks released: who looks up a parameter of
  // one that is only fetched ahead must ask for it, or it goes away under him.
  void show();
  void release();
  // From the shard to the full buffer, for every group of a unit that is gathering. `refresh`: only
  // those that an update has changed.
  std::vector<GatherPair> gather_pairs(bool refresh = false) const;
  std::int64_t gathered_bytes() const { return layout_.totals().gathered_bytes; }

  // What the rank holds of the unit leaves the device for a while, and comes back: the caller moves
  // its memory (owned_states(), of a unit that belongs on the device). In between parameters have
  // no elements.
  void leave_device();
  void return_to_device();
  std::vector<StateBuffer*> owned_states();

  // Writes what the rank holds of the unit, and nothing else.
  void fill(const ParameterFiller& fill);
  // The shard takes its span of the full buffer's values, which somebody has changed.
  void copy_full_to_shard();

  // Throws StateError that names a parameter which no longer is the view it was made. `trains`: or
  // whose requires_grad has changed, which only matters then (PEFT switches adapters off for a
  // while).
  void check_intact(bool trains = true) const;

 private:
  struct Group {
    at::Tensor flat;    // over the storage that all views share
    StateBuffer owned;  // the full buffer of a resident unit, else the shard
    std::int64_t shard_bytes = 0;
  };

  void make_group(std::size_t index);
  // Each part of a parameter that the rank holds, and where it starts in what the group owns.
  using SeePiece =
      std::function<void(const NamedParameter&, const Span& elements, std::int64_t at)>;
  void for_each_held_piece(const FlatGroup& group, const SeePiece& see) const;
  void copy_values(const FlatGroup& group, const at::Tensor& into) const;
  void make_views(const FlatGroup& group, const at::Tensor& flat);
  void point_at(Group& group, void* data) const;
  void show_shapes(bool shown);
  void set_shapes(bool shown);
  void* released_data(std::size_t group) const;

  UnitLayout layout_;
  std::vector<NamedParameter> parameters_;
  std::vector<bool> trainable_;
  std::vector<KeptNode> accumulators_;  // autograd's, which note the full shapes
  FlatUnitOptions options_;
  std::shared_ptr<StateMemory> memory_;
  Device device_;
  bool has_call_point_;
  std::vector<Group> groups_;
  std::unique_ptr<ReleasedRange> released_;
  at::Tensor poison_;
  ParameterState state_;
};

}  // namespace zeroshard
