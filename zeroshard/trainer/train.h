// One rank of `zeroshard train`: from a configuration, a model and data to trained weights.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/engine/engine.h"
#include "zeroshard/monitor/interrupts.h"
#include "zeroshard/monitor/stop_deadline.h"
#include "zeroshard/monitor/trace.h"
#include "zeroshard/trainer/batches.h"
#include "zeroshard/trainer/memory_watch.h"
#include "zeroshard/trainer/run_checkpoints.h"
#include "zeroshard/trainer/run_log.h"
#include "zeroshard/trainer/run_settings.h"
#include "zeroshard/trainer/step_loss.h"
#include "zeroshard/trainer/task.h"

namespace zeroshard {

// What one step brought, agreed by all ranks.
struct StepOutcome {
  double loss = 0.0;  // mean over ranks and micro-steps
  StepResult result = {};
  int signal = 0;          // that some rank was sent: SIGINT, SIGTERM, SIGUSR1, or 0
  bool abandoned = false;  // it would not have ended in time after that: no weight has changed
  bool save_due = false;   // by rank 0's clock
  bool save_over = false;  // on all ranks
};

class Trainer {
 public:
  struct Parts {  // all must outlive it
    TrainingTask& task;
    Communicator& comm;
    Interrupts& interrupts;
    StopDeadline& deadline;  // nothing is abandoned while a save is waited for
    MemoryWatch& memory;
    SaveFolder* saves = nullptr;  // null: no checkpoints
    SaveMode save_mode = SaveMode::foreground;
    bool may_go_back = false;  // to an older checkpoint, where the one to resume is damaged
  };
  Trainer(const TrainOptions& options, const RunSettings& run, const Parts& parts, Device device);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Trains to the last step, or until a signal asks to stop: then its number, else 0. Collective.
  int run();
  // A run that ends without a single update is a StateError. Behind run(), on all ranks.
  void refuse_untrained() const;
  // The last checkpoint, where there are any and this one is missing. False where it could not be
  // written. Collective.
  bool save_last();
  // The weights, where they are asked for and a step has changed them. Collective.
  void write_out();
  // What ran when, also after a signal. Collective.
  void write_trace_file();
  // Beside the steps, into the log.
  void record(const JsonObject& what);
  // The page about the run, where it is asked for.
  void write_report();

  Engine& engine() { return *engine_; }
  // "step 3, forward"
  std::string whereabouts() const;
  // Takes the progress line off the terminal.
  void make_room();

 private:
  void make_engine();
  void take_initial_weights();
  void resume();
  RunState load_checkpoint();
  RunState state() const;
  void look_after_checkpoints(const StepOutcome& outcome);
  void finish_save();
  // Updates that are under way, which may wait for a save.
  void finish_updates();
  bool is_held_by_save() const { return checkpoints_ && checkpoints_->holds_updates(); }
  bool is_first() const { return comm_.rank() == 0; }
  double set_learning_rate();
  StepOutcome train_step(WallClock* clock);
  // Part of a step, whose loss it adds to.
  StepResult train_micro_step(std::int64_t micro, WallClock* clock, StepLoss& step_loss);
  // A part that the breakdown shows: then, and only then, the host waits for its end on the device.
  template <typename Part>
  void timed(WallClock* clock, const char* name, const Part& part);
  void note_memory(StepPhase phase);
  StepOutcome agree(double loss_sum, double seconds, const StepResult& result);
  bool would_end_late(std::chrono::nanoseconds part) const;
  void refuse_lost_loss(const StepOutcome& outcome) const;
  void note(const StepOutcome& outcome, double lr);
  void say_stop(const StepOutcome& outcome);
  int evaluate();
  // The rank that speaks throws it; the others throw its echo.
  [[noreturn]] void fail(const Fault& fault) const;

  const TrainOptions& options_;
  const RunSettings& run_;
  TrainingTask& task_;
  Communicator& comm_;
  BatchPlan batches_;
  Interrupts& interrupts_;
  StopDeadline& deadline_;
  MemoryWatch& memory_;
  const Device device_;
  std::unique_ptr<Trace> trace_;
  std::unique_ptr<Engine> engine_;
  std::optional<RunLog> log_;
  std::optional<RunCheckpoints> checkpoints_;
  const bool may_go_back_;
  std::string resumed_ = {};   // the checkpoint's folder
  bool save_pending_ = false;  // one is due, and the one before is still under way
  bool is_best_ = false;       // these weights, by the evaluation just done
  std::optional<double> eval_loss_;
  std::optional<double> best_eval_loss_;
  std::int64_t step_ = 0;  // under way, or done
  std::int64_t steps_done_ = 0;
  std::int64_t first_step_ = 0;    // done before, by the run that this one resumes
  std::int64_t updates_ = 0;       // applied
  double loss_scale_ = 1.0;        // of the last step
  const char* doing_ = "start";    // what `step_` is at
  bool has_long_steps_ = true;     // so ranks talk also between its micro-steps
  bool checkpoint_asked_ = false;  // in the step before
};

// The whole of it on this rank, from the environment's launcher to the exit code.
int train(const TrainOptions& options);

}  // namespace zeroshard
