// The gradients of one trainable flat group: where they are written as they come, and G.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/layout/placement.h"
#include "zeroshard/layout/tier_plan.h"
#include "zeroshard/layout/unit_layout.h"
#include "zeroshard/numeric/arrays.h"
#include "zeroshard/optim/norm_span.h"
#include "zeroshard/precision/options.h"
#include "zeroshard/tier/state_memory.h"

namespace zeroshard {

// Where a gradient is written when it comes. It is chosen once, by the plan and the group's dtype.
enum class WriteTarget {
  kept,     // the local gradient, which is kept until the step's last micro-step
  bucket,   // the group's part of its bucket's buffer, from which it is reduced
  reduced,  // G itself, because there is one rank
  held,     // nowhere: one rank, one micro-step to a step; G is the tensors that autograd has made
  sent,     // nowhere: one rank, whose G is on the host; each is copied down as it comes
};

class GradientsDown;

// Where G of a group lies.
struct GradientHome {
  Tier tier = Tier::device;
  GradientsDown* down = nullptr;  // on the host, with one rank
};

// What is the same for all groups of an engine.
struct GradientPlan {
  Stage stage;
  DType accumulation;             // the local gradient's
  DType communication;            // what travels
  DType reduced;                  // G's
  float scale_before_sum = 1.0F;  // on the local gradient, before it travels
  float scale_after_sum = 1.0F;   // on the fp32 sum
  int rank = 0;
  int world_size = 1;
  std::int64_t accumulation_steps = 1;

  bool keeps_local() const { return stage.gradients_accumulating == Placement::partial; }
  // Reductions read a bucket's buffer, and not the local gradient itself.
  bool packs() const { return world_size > 1 && (!keeps_local() || accumulation != communication); }
  // G overwrites the local gradient, which has done its duty by then.
  bool reduces_in_place() const {
    return keeps_local() && bytes_of(reduced) <= bytes_of(accumulation);
  }
  GradientTypes types() const;
  // Where gradients of this dtype are written; `flat`: but not `held` or `sent`.
  WriteTarget target(DType dtype, Tier tier) const;
  WriteTarget flat_target() const;
};

class GradientGroup {
 public:
  GradientGroup(const FlatGroup& group, const GradientPlan& plan, const GradientHome& home,
                StateMemory& memory);
  ~GradientGroup();
  GradientGroup(GradientGroup&& other) noexcept;
  GradientGroup& operator=(GradientGroup&&) = delete;

  const FlatGroup& group() const { return group_; }
  std::int64_t padded_numel() const { return group_.layout.padded_numel(); }

  // One gradient, written where nothing was written in this generation, else added. `bucket` is the
  // group's part of a bucket's buffer, and is used where that is the target.
  void write(std::size_t parameter, const at::Tensor& gradient, void* bucket);
  bool written(std::size_t parameter) const { return written_[parameter]; }
  // Whether what comes now is reduced as soon as it is complete, so that it may be sent at once.
  void expect(bool reduction) { reduces_ = reduction; }
  // What is written from now on replaces what is there.
  void begin_generation() { written_.assign(written_.size(), false); }
  // Zeros for what got no gradient, and for padding.
  void fill_gaps(void* bucket);
  // From the kept local gradient into a bucket's buffer, cast and scaled.
  void pack(void* bucket);

  // The reduction of this group: from the bucket's buffer or the local gradient, to the own span.
  ReducePair pair(void* bucket);
  // The same where there is one rank.
  void reduce_alone();
  // A second backward of the step adds up in fp32.
  void promote();
  void end_step();

  // Whether the step's reduced gradient is (partly) there, so that more of it must be added.
  bool holds_reduced() const { return reductions_ > 0; }
  void note_reduction() { ++reductions_; }

  // G of a span of the flat group that this rank has, in pieces that follow each other; what lies
  // between them is padding.
  struct ReducedPiece {
    std::int64_t offset = 0;  // of its first element, in the span
    ConstPiece values;
  };
  std::vector<ReducedPiece> reduced(const Span& span) const;
  // What a norm is taken of.
  NormSpan norm_span() const;
  // Starts the norm's sum for a step that ends with this backward, where G is on the host: it is
  // made while backward goes on.
  void start_sum_of_squares();
  // The sum, where it was started and G cannot have changed since.
  std::optional<double> sum_of_squares() const;

  // G in one piece: the own span, and all of it where it is replicated. Not while it is held.
  // Whoever asks for it may write it.
  Device reduced_device() const { return on_host() ? kCpu : device_; }
  Piece own_reduced() const;
  Piece all_reduced() const;
  // The kept local gradient, where there is one.
  Piece all_local() const;

  WriteTarget target() const { return target_; }
  bool is_held() const { return target_ == WriteTarget::held; }
  // A parameter's gradient as autograd has made it; undefined where none came.
  const at::Tensor& held(std::size_t parameter) const { return held_[parameter]; }
  void hold(std::size_t parameter, const at::Tensor& gradient);
  // Held gradients move into memory of ours, because more is to be added to them. It stays from
  // then on: whoever adds up in one step does so in the next.
  void settle();

  // The memory of local gradient and G that belongs on the device, for moves between tiers. Held
  // gradients are settled first.
  std::vector<StateBuffer*> memory();

  // Held gradients were made on other streams than the one that has read them: their memory must
  // not be given to others before that stream has come so far.
  void note_held_use() const;

  // Somebody else has written a parameter's local gradient.
  void note_written(std::size_t parameter) { written_[parameter] = true; }

 private:
  struct Local {
    void* data = nullptr;
    DType dtype = DType::fp32;
  };
  Local local(void* bucket) const;
  ArrayWrite into(const Local& to, const Span& span) const;
  ArrayWrite from_local(void* to, DType dtype) const;
  at::Tensor over(void* data, std::int64_t count, DType dtype) const;
  bool on_host() const { return home_.tier == Tier::host; }
  bool overwrites_local() const { return !on_host() && plan_.reduces_in_place(); }
  void send(std::size_t parameter, const at::Tensor& gradient);
  void send_local();
  void zero_unsent();
  void allocate();
  void allocate_local();
  void allocate_reduced();
  void count_held(std::int64_t bytes);
  void* reduced_data() const;
  bool reduced_is_pinned() const { return (promoted_ ? promoted_g_ : reduced_).pinned(); }
  DType reduced_dtype() const { return promoted_ ? DType::fp32 : plan_.reduced; }
  bool adds_to_reduced() const { return target_ == WriteTarget::reduced && holds_reduced(); }
  std::int64_t own_offset() const;

  const FlatGroup& group_;
  const GradientPlan& plan_;
  GradientHome home_;
  StateMemory* memory_;
  Device device_;
  WriteTarget target_;
  std::vector<at::Tensor> held_;    // by parameter
  std::int64_t counted_bytes_ = 0;  // of these, in the ledger
  StateBuffer local_;               // where the local gradient is kept
  StateBuffer reduced_;             // where G does not overwrite it
  StateBuffer promoted_g_;          // made by the first second backward
  bool promoted_ = false;
  std::vector<bool> written_;  // in this generation, by parameter
  std::vector<bool> sent_;     // in this step: G has something of the parameter
  bool reduces_ = true;
  std::vector<Span> padding_;
  std::int64_t reductions_ = 0;                    // in this step
  mutable std::shared_ptr<const double> squares_;  // of G, as it was when it came
};

}  // namespace zeroshard
