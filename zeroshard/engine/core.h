// The engine without modules: it is given units (a name, a list of parameters) and told when each
// is used. Unit<M> in C++ and the module hooks in Python are thin callers of it.
//
//   core.before_forward(unit, trains);  ... the unit computes ...  core.after_forward(unit);
//   use = core.uses().begin(unit);       // this forward may be differentiated
//   core.before_backward(use);           // a gradient of an output has arrived
//   core.after_backward(use);            // the gradients of its inputs are there
//   core.uses().forget(use);             // the graph is gone
//
// The core wires parts together, each of which can be read and tested alone:
//
//   UnitUses       which uses of units the backward under way differentiates
//   Gatherer       which units are here in full, by a GatherSchedule that all ranks share
//   Reducer        local gradients in, buckets out, G
//   BackwardPass   one backward: what it holds, and when each unit of it is over
//   StepAgreement  what ranks agree on in a step: norm, presence of gradients, order of units
//   Updater        masters, moments and parameters from G
//   ShownGradients what `.grad` shows
//
// It is told things on several threads, one at a time (its lock). Work of a device is issued on the
// calling thread's current stream and not waited for; the host stops once in a step, for the norm.
// Gradients are taken at the parameters' accumulator nodes; `.grad` is empty, or shows what is
// kept.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/ledger.h"
#include "zeroshard/engine/backward_pass.h"
#include "zeroshard/engine/engine_options.h"
#include "zeroshard/engine/flat_unit.h"
#include "zeroshard/engine/gatherer.h"
#include "zeroshard/engine/gradient_hooks.h"
#include "zeroshard/engine/loss_division.h"
#include "zeroshard/engine/offloaded_states.h"
#include "zeroshard/engine/reducer.h"
#include "zeroshard/engine/shown_gradients.h"
#include "zeroshard/engine/slot_ring.h"
#include "zeroshard/engine/step_agreement.h"
#include "zeroshard/engine/stream_order.h"
#include "zeroshard/engine/unit_times.h"
#include "zeroshard/engine/unit_uses.h"
#include "zeroshard/engine/update_gate.h"
#include "zeroshard/engine/updater.h"
#include "zeroshard/engine/weak_core.h"
#include "zeroshard/optim/options.h"
#include "zeroshard/precision/loss_scaler.h"
#include "zeroshard/precision/options.h"

namespace zeroshard {

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

  static std::shared_ptr<StateMemory> make_memory(const EngineOptions& options);
  // How a unit is to be laid out. It is appended to the `units` so far: the limits on persistent
  // units are on their sum.
  static FlatUnitOptions unit_options(const EngineOptions& options, const UnitSpec& unit,
                                      const Communicator& comm, std::vector<UnitSize>& units);

  // `trains`: whether a backward is to follow. Gradients are off in what is computed again then.
  void before_forward(std::size_t unit, bool trains);
  void after_forward(std::size_t unit);
  // The forward under way ends in an exception.
  void abandon_forward();

  UnitUses& uses() { return uses_; }
  void before_backward(const UnitUses::Id& use);
  void after_backward(const UnitUses::Id& use);
  // Whether a backward is under way on this thread: a forward inside it recomputes. It gathers
  // where needed; what it has gathered stays until the recompute ends.
  bool recomputes() const;
  // A forward that was run without a graph is about to be run again. Where that happens inside a
  // backward, it may be the first thing of the engine that this backward meets.
  void begin_recompute();
  void end_recompute(std::size_t held_before);
  std::size_t recompute_holds() const { return backward_->recompute_holds(); }

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
  // Finishes everything asynchronous: parameters and states read as after step(), by anybody.
  void quiesce();
  // The same but for updates that the configuration delays: parameters read as a forward reads
  // them.
  void wait_for_parameters();
  // What the calling thread's stream does from now on reads the unit's parameters as after step().
  void wait_for_unit(std::size_t unit);
  // Of the calling thread, among the streams of the engine's device.
  std::int64_t current_stream_id() const { return parameter_order_.current().id(); }
  // Whose forward or backward began last, for messages; empty where none has.
  std::string last_unit();
  // Something failed where nothing may be thrown: the next call throws it.
  void keep_error(std::exception_ptr error) noexcept;

  // A unit's full parameters, between phases. Collective. The shards and masters take over what was
  // written into them, by all ranks or by rank `from`.
  // `writes`: somebody may write them until then.
  void gather_full(std::size_t unit, bool writes = false);
  void release_full(std::size_t unit, Written written, int from = -1);
  // Gives back the buffers in which units were gathered, until the next gather. No message.
  void empty_gather_pool();
  // Masters were written by each rank: parameters follow, of one unit or all. Collective.
  void adopt_masters(std::optional<std::size_t> only = {});
  // Blocks until what backward has brought so far is reduced.
  void finish_reductions();
  // Every rank writes what it holds; masters follow. No message.
  void fill_parameters(const ParameterFiller& fill);

  // States leave the device for a while, as between the phases of a script, and come back.
  using OffloadRequest = OffloadedStates::Request;
  void offload_states(const OffloadRequest& request);
  void reload_states(bool blocks = true);
  const std::set<Category>& offloaded() const { return offloaded_.states(); }
  // Throws StateError where parameters are away; a reload under way is waited for.
  void check_parameters_here();

  std::size_t units() const { return flat_.size(); }
  ModelLayout layout() const;  // of all of them
  const EngineOptions& options() const { return options_; }
  const TierPlan& tiers() const { return tiers_; }
  const std::shared_ptr<WeakCore>& weak() const { return weak_; }
  const FlatUnit& unit(std::size_t index) const { return *flat_[index]; }
  // As after step(): these wait for updates that are under way.
  const OptimizerStates& states() const { return finished_states(); }
  OptimizerStates& states() { return finished_states(); }
  // Null where no update may begin early.
  SpeculativeUpdates* speculation() { return updater_->speculation(); }
  // What an update that is not ours works on; empty where ours does.
  const std::vector<MasterSegment>& master_segments() const { return updater_->master_segments(); }
  std::vector<OptimizerOptions>& parameter_groups() { return options_.parameter_groups; }
  const LossScaler& scaler() const { return scaler_; }
  LossScaler& scaler() { return scaler_; }
  // Closed by who reads states while training goes on: updates, and whoever else writes states,
  // wait for it. Speculation is off meanwhile.
  UpdateGate& gate() { return gate_; }
  // An order of its own for who reads states beside training; none on the CPU. There is one for all
  // of them: torch's allocator keeps for each stream what was freed on it.
  const std::optional<Stream>& reading_stream() const { return reading_stream_; }
  // For who needs memory that the ledger counts.
  StateMemory& state_memory() { return *memory_; }
  const Reducer& reducer() const { return *reducer_; }
  Reducer& reducer() { return *reducer_; }
  MemoryLedger& memory() const { return memory_->ledger(); }
  TrafficLedger& traffic() { return traffic_; }
  Communicator& comm() { return *gathers_; }
  Trace* trace() const { return options_.trace; }
  // Parameters that had no gradient on any rank in the last step, by name.
  const std::vector<std::string>& without_gradient() const { return updater_->without_gradient(); }

 private:
  friend class GradientHook;

  OptimizerStates& finished_states() const {
    offloaded_.require({Category::parameters, Category::master, Category::moments},
                       "reading states");
    gatherer_->wait_for_updates();
    updater_->take_back_speculation();
    updater_->wait_for_delayed();
    return updater_->states();
  }
  int moments() const;  // per parameter, of ours
  void plan_tiers();
  FittedMemory fit_memory() const;
  void publish_delayed();
  void adopt_full(std::size_t unit, Written written, int from);
  void make_gatherer();
  void make_reducer();
  void make_updater();
  std::unique_lock<std::mutex> enter();
  void refuse_move() const;
  void end_everything();
  std::vector<StateBuffer*> memory_of(Category category);
  void settle_reload(const std::set<Category>& states);
  void bring_back_parameters() noexcept;
  void capture(std::size_t unit, std::size_t parameter, const at::Tensor& gradient);

  bool stage_keeps_local() const { return stage_.gradients_accumulating == Placement::partial; }
  bool reduces_now() const { return at_boundary() || !stage_keeps_local(); }
  bool scales_loss() const { return options_.precision.fp16.enabled && !hooks_.empty(); }
  LossState somebodys_loss() const;
  void refuse_unscaled() const;
  at::Tensor divide_scaled(const at::Tensor& gradient);
  at::Tensor as_ours(const at::Tensor& gradient, const at::Tensor& parameter) const;

  void begin_backward(LossState loss);
  void open_backward();
  void open_backward(LossState loss);
  void close_backward();
  void drop_backward();
  void drop_broken_backward();
  void pass_over_backward();
  void gather_to_show();
  void take_back_shown();
  void show_gradients();
  void report_backward() const;

  void join_phases_of_others();
  void wait_for_reductions();
  StepFindings own_findings();
  StepAgreement agree();
  void refuse_unused(const StepAgreement& agreed);
  float plain_factor() const;  // unscaling alone
  void apply(const StepAgreement& agreed, float factor);

  EngineOptions options_;
  const Stage stage_;
  TrafficLedger traffic_;
  std::unique_ptr<Communicator> gathers_;     // parameters
  std::unique_ptr<Communicator> reductions_;  // gradients: ranks may reach them in another order
  std::shared_ptr<StateMemory> memory_;
  std::vector<std::unique_ptr<FlatUnit>> flat_;
  std::optional<std::size_t> root_;
  ThreadPool pool_;
  TierPlan tiers_;
  std::unique_ptr<SlotRing> staging_;  // between tiers
  UnitUses uses_;
  UnitTimes times_;
  StreamOrder parameter_order_;
  StreamOrder gradient_order_;
  UpdateGate gate_;
  std::optional<Stream> reading_stream_;
  std::unique_ptr<Gatherer> gatherer_;
  std::unique_ptr<Reducer> reducer_;
  std::unique_ptr<BackwardPass> backward_;
  std::unique_ptr<Updater> updater_;
  std::unique_ptr<ShownGradients> shown_;  // null where none are ever shown
  LossScaler scaler_;
  std::shared_ptr<WeakCore> weak_;
  std::vector<GradientHandle> hooks_;
  mutable OffloadedStates offloaded_;

  std::mutex mutex_;
  std::exception_ptr kept_error_;
  std::optional<std::size_t> last_begun_;
  bool forward_ran_ = false;  // in this micro-step, on this rank
  bool backward_ran_ = false;
  bool shows_local_ = false;
  std::vector<std::vector<bool>> full_scopes_;  // by unit, that are open: old parameters are kept
  LossState loss_;                              // of the backward under way
  std::int64_t micro_steps_ = 0;                // step() calls since the last boundary
  std::optional<bool> boundary_;                // what the caller says
};

}  // namespace zeroshard
