// The gradients of one trainable flat group: where the local gradient is written, and G.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/layout/placement.h"
#include "zeroshard/layout/unit_layout.h"
#include "zeroshard/precision/options.h"
#include "zeroshard/tier/state_memory.h"

namespace zeroshard {

// What is the same for all groups of an engine.
struct GradientPlan {
  Stage stage;
  DType accumulation;   // the local gradient's
  DType communication;  // what travels
  DType reduced;        // G's
  float before = 1.0F;  // on the local gradient, before it travels
  float after = 1.0F;   // on the fp32 sum
  int rank = 0;
  int world_size = 1;

  bool keeps_local() const { return stage.gradients_accumulating == Placement::partial; }
  // Reductions read a bucket's buffer, and not the local gradient itself.
  bool packs() const { return world_size > 1 && (!keeps_local() || accumulation != communication); }
  // G overwrites the local gradient, which has done its duty by then.
  bool reduces_in_place() const {
    return keeps_local() && bytes_of(reduced) <= bytes_of(accumulation);
  }
};

class GradientGroup {
 public:
  GradientGroup(const FlatGroup& group, const GradientPlan& plan, StateMemory& memory);

  const FlatGroup& group() const { return group_; }
  std::int64_t padded_numel() const { return group_.layout.padded_numel(); }

  // One gradient, written where nothing was written in this generation, else added. `packed` is the
  // group's part of a bucket's buffer, null where the local gradient is kept or is G.
  void write(std::size_t parameter, const at::Tensor& gradient, void* packed);
  bool written(std::size_t parameter) const { return written_[parameter]; }
  // What is written from now on replaces what is there.
  void begin_generation() { written_.assign(written_.size(), false); }
  // Zeros for what got no gradient, and for padding.
  void fill_gaps(void* packed);
  // From the kept local gradient into a bucket's buffer, cast and scaled.
  void pack(void* packed);

  // The reduction of this group: from the bucket's buffer or the local gradient, to the own span.
  ReducePair pair(void* packed);
  // The same where there is one rank.
  void reduce_alone();
  // A second backward adds up in fp32.
  void promote();
  void end_step();

  // Whether the step's reduced gradient is (partly) there, so that more of it must be added.
  bool holds_reduced() const { return reductions_ > 0; }
  void note_reduction() { ++reductions_; }
  // G: the own span, and all of it where it is replicated.
  Piece own_reduced() const;
  Piece all_reduced() const;
  // The kept local gradient, where there is one.
  Piece all_local() const;
  // Somebody else has written a parameter's local gradient.
  void note_written(std::size_t parameter) { written_[parameter] = true; }

 private:
  at::Tensor local(std::size_t parameter, void* packed) const;
  void* reduced_data() const;
  DType reduced_dtype() const { return promoted_ ? DType::fp32 : plan_.reduced; }
  DType local_dtype(const void* packed) const;
  void* local_data(void* packed) const;
  std::int64_t own_offset() const;

  const FlatGroup& group_;
  const GradientPlan& plan_;
  StateMemory& memory_;
  Device device_;
  StateBuffer local_;       // where the local gradient is kept
  StateBuffer reduced_;     // where G does not overwrite it
  StateBuffer promoted_g_;  // made by the first second backward
  bool promoted_ = false;
  std::vector<bool> written_;  // in this generation, by parameter
  std::vector<Span> padding_;
  std::int64_t reductions_ = 0;  // in this step
};

}  // namespace zeroshard
