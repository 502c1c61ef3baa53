// The engine without modules: it is given units (a name, a list of parameters) and told when each
// is used. Unit<M> in C++ and the module hooks in Python are thin callers of it.
//
//   core.before_forward(unit, trains);  ... the unit computes ...  core.after_forward(unit);
//   core.expect_backward(unit);            // its outputs will be differentiated
//   core.before_backward(unit);            // a gradient of an output has arrived
//   core.after_backward(unit);             // the gradients of its inputs are there
//   core.forget_backward(unit, use);       // the graph is gone, once for each expect_backward
//
// Gradients are taken at the parameters' accumulator nodes; `.grad` is empty, or shows what is
// kept.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zeroshard/base/thread_pool.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/ledger.h"
#include "zeroshard/engine/flat_unit.h"
#include "zeroshard/engine/gatherer.h"
#include "zeroshard/engine/gradient_hooks.h"
#include "zeroshard/engine/master_segments.h"
#include "zeroshard/engine/optimizer_states.h"
#include "zeroshard/engine/options.h"
#include "zeroshard/engine/reducer.h"
#include "zeroshard/engine/shown_gradients.h"
#include "zeroshard/engine/unit_spans.h"
#include "zeroshard/optim/options.h"
#include "zeroshard/precision/loss_scaler.h"
#include "zeroshard/precision/options.h"

namespace zeroshard {

struct EngineOptions {
  ZeroOptions zero = {};
  PrecisionOptions precision = {};
  std::int64_t accumulation_steps = 1;
  // Parameter groups. A parameter is in the one that `group_of` gives for its name; without it in
  // the first. Learning rates may change between steps.
  std::vector<OptimizerOptions> groups = {AdamOptions{}};
  std::function<int(const std::string& parameter)> group_of = {};
  Device device = kCpu;
  int threads = 0;         // of the optimizer; 0: one per usable CPU
  Trace* trace = nullptr;  // of what happens when, if any; it outlives the engine
  // Instead of our kernels: updates the masters of core.master_segments() from their gradients,
  // unscaled and clipped (undefined where no rank had one). It has no moments of ours.
  std::function<void(const std::vector<at::Tensor>& gradients)> update = {};
  // A released parameter has no elements, rather than a shape and no memory. It is then safe to
  // copy, print and count, which matters where others do so: in Python.
  bool empties_released = false;
  // Parameters stay of the type they are: whoever made them has chosen, as PEFT does for adapters.
  bool keeps_dtypes = false;
  // Where a rank has all gradients, `.grad` shows them: G from the backward that ends the step to
  // step(), where it is replicated, and the local sums while show_local() is on. G is then gathered
  // when backward ends, rather than in step().
  bool shows_gradients = false;
  // Called when a backward has ended, whoever called it, without a lock of the core's.
  std::function<void(bool shown)> after_backward = {};
};

struct StepResult {
  bool boundary = false;       // else gradients were only accumulated
  bool applied = false;        // false where a gradient was not finite
  double gradient_norm = 0.0;  // unscaled, before clipping
  double loss_scale = 1.0;     // that the gradients were made with
};

class Core {
 public:
  // Every rank passes the same units in the same order: forward's, as far as is known.
  Core(const std::vector<UnitSpec>& units, const EngineOptions& options, Communicator& comm);
  Core(std::vector<std::unique_ptr<FlatUnit>> units, std::shared_ptr<StateMemory> memory,
       EngineOptions options, Communicator& comm);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // How a unit is to be laid out. It is appended to the `units` so far: the limits on persistent
  // units are on their sum.
  static FlatUnitOptions unit_options(const EngineOptions& options, const UnitSpec& unit,
                                      const Communicator& comm, std::vector<GatherUnit>& units);

  // `trains`: whether a backward is to follow. Gradients are off in what is computed again then.
  void before_forward(std::size_t unit, bool trains);
  void after_forward(std::size_t unit);
  // The forward under way ends in an exception.
  void abandon_forward();
  void expect_backward(std::size_t unit);
  // That use has no input that needs a gradient: nothing will tell when its backward is over.
  void leave_open(std::size_t unit);
  // The graph of that use is gone. `pending`: without its backward; `open`: it was left open.
  struct ForgottenUse {
    bool pending = false;
    bool open = false;
  };
  void forget_backward(std::size_t unit, ForgottenUse use);
  void before_backward(std::size_t unit);
  void after_backward(std::size_t unit);
  // Whether a backward is under way: a forward inside it recomputes. It gathers where needed; what
  // it has gathered stays until the recompute ends.
  bool recomputes() const;
  void end_recompute(std::size_t held_before);
  std::size_t recompute_holds() const { return recompute_held_.size(); }

  // Scales, differentiates, reduces. The loss is one number.
  struct BackwardOptions {
    bool averages = true;      // over the micro-steps of a step; else the loss is so already
    bool keeps_graph = false;  // to be differentiated once more
  };
  void backward(const at::Tensor& loss) { backward(loss, BackwardOptions{}); }
  void backward(const at::Tensor& loss, const BackwardOptions& options);
  // The loss times the loss scale, for those who call backward() on it themselves. What such a
  // backward brings is divided by the micro-steps of a step, as what ours brings.
  at::Tensor scale(const at::Tensor& loss);
  // Reduces what backwards have only collected (set_boundary(false)), as step() would. Collective.
  void reduce_gradients();
  void show_local(bool on);
  bool shows_local() const { return shows_local_; }
  bool shows_gradients() const { return shown_ != nullptr && shown_->active(); }  // just now
  // Acts at the accumulation boundary.
  StepResult step();
  // The caller knows whether what follows is the last micro-step of its step; unset: it is counted.
  void set_boundary(std::optional<bool> boundary);
  bool at_boundary() const;
  // From the next step on. Between steps.
  void set_accumulation_steps(std::int64_t steps);
  // Finishes everything asynchronous: parameters and states read as after step().
  void quiesce();

  // A unit's full parameters, between phases. Collective. The shards and masters take over what was
  // written into them, by all ranks or by rank `from`.
  void gather_full(std::size_t unit);
  void release_full(std::size_t unit, Written written, int from = -1);
  // Gives back the buffers in which units were gathered, until the next gather. No message.
  void empty_gather_pool();
  // Masters were written by each rank: parameters follow, of one unit or all. Collective.
  void adopt_masters(std::optional<std::size_t> only = {});
  // Blocks until what backward has brought so far is reduced.
  void finish_reductions();
  // Every rank writes what it holds; masters follow. No message.
  void fill_parameters(const ParameterFiller& fill);

  std::size_t units() const { return flat_.size(); }
  const std::shared_ptr<CoreLink>& link() const { return link_; }
  const FlatUnit& unit(std::size_t index) const { return *flat_[index]; }
  const OptimizerStates& states() const { return *states_; }
  OptimizerStates& states() { return *states_; }
  // What an update that is not ours works on; empty where ours does.
  const std::vector<MasterSegment>& master_segments() const { return master_segments_; }
  std::vector<OptimizerOptions>& parameter_groups() { return options_.groups; }
  const LossScaler& scaler() const { return scaler_; }
  LossScaler& scaler() { return scaler_; }
  const Reducer& reducer() const { return *reducer_; }
  MemoryLedger& memory() const { return memory_->ledger(); }
  TrafficLedger& traffic() { return traffic_; }
  Communicator& comm() { return *gathers_; }
  Trace* trace() const { return options_.trace; }
  // Parameters that had no gradient on any rank in the last step, by name.
  const std::vector<std::string>& without_gradient() const { return without_gradient_; }

 private:
  friend class GradientHook;

  void make_gatherer();
  void make_reducer();
  void make_states();
  void capture(std::size_t unit, std::size_t parameter, const at::Tensor& gradient);
  // What has been done to the loss that is differentiated now.
  struct LossState {
    bool scaled = true;
    double divisor = 1.0;  // that is still owed, of the micro-steps of a step
  };
  void begin_backward(LossState loss);
  void open_backward();
  void open_backward(LossState loss);
  void close_backward();
  LossState somebodys_loss() const;
  bool scales_loss() const { return options_.precision.fp16.enabled && !hooks_.empty(); }
  void refuse_unscaled() const;
  at::Tensor divide_scaled(const at::Tensor& gradient);
  at::Tensor as_ours(const at::Tensor& gradient, const at::Tensor& parameter) const;
  void gather_to_show();
  void show_gradients();
  void report_backward() const;
  void pass_backward();
  void drop_backward();
  void drop_broken_backward();
  void check_root() const;
  void hold_for_recompute(std::size_t unit);
  void skip_in_backward(std::size_t unit);
  void finish_unit(std::size_t unit);
  void finish_open_unit(std::size_t unit);
  bool completes_by_gradients() const;
  bool stage_keeps_local() const { return stage_.gradients_accumulating == Placement::partial; }
  void do_what_others_did();
  void wait_for_reductions();
  struct Agreement {
    double norm = 0.0;
    std::vector<bool> present = {};  // by trainable parameter, over all ranks
    bool order_changed = false;      // on rank 0
  };
  std::vector<std::uint8_t> own_findings();
  Agreement agree();
  double own_sum_of_squares();
  std::vector<std::vector<bool>> by_unit(const std::vector<bool>& present) const;
  void refuse_unused(const Agreement& agreed);
  void apply(const Agreement& agreed, float factor);
  void note_without_gradient(const std::vector<std::vector<bool>>& present);
  void update_by_kernels(const std::vector<std::vector<bool>>& present, float factor);
  void update_by_caller(const std::vector<std::vector<bool>>& present, float factor);
  bool order_changed() const;
  void adopt_order();

  EngineOptions options_;
  const Stage stage_;
  TrafficLedger traffic_;
  std::unique_ptr<Communicator> gathers_;     // parameters
  std::unique_ptr<Communicator> reductions_;  // gradients: ranks may reach them in another order
  std::shared_ptr<StateMemory> memory_;
  ThreadPool pool_;
  std::vector<std::unique_ptr<FlatUnit>> flat_;
  std::optional<std::size_t> root_;
  std::unique_ptr<Gatherer> gatherer_;
  std::unique_ptr<Reducer> reducer_;
  std::unique_ptr<ShownGradients> shown_;  // null where none are ever shown
  std::unique_ptr<OptimizerStates> states_;
  LossScaler scaler_;
  std::shared_ptr<CoreLink> link_;
  std::vector<GradientHandle> hooks_;

  std::mutex mutex_;
  bool in_backward_ = false;
  bool forward_ran_ = false;  // in this micro-step, on this rank
  bool backward_ran_ = false;
  bool autograd_is_over_ = true;
  LossState loss_;
  bool shows_local_ = false;
  std::vector<std::atomic<int>> pending_;   // uses whose backward has not ended
  std::vector<std::atomic<int>> in_graph_;  // uses that may be differentiated (again)
  std::vector<std::atomic<int>> open_;      // of these, the ones that were left open
  std::vector<bool> held_;                  // in backward
  std::vector<std::size_t> recompute_held_;
  UnitSpans spans_;
  std::int64_t micro_steps_ = 0;  // step() calls since the last boundary
  std::optional<bool> boundary_;  // what the caller says
  std::vector<MasterSegment> master_segments_;
  std::vector<std::string> without_gradient_;
};

}  // namespace zeroshard
