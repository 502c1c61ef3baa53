// One rank of `zeroshard train`: from a configuration, a model and data to trained weights.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/engine/engine.h"
#include "zeroshard/monitor/interrupts.h"
#include "zeroshard/monitor/trace.h"
#include "zeroshard/trainer/batches.h"
#include "zeroshard/trainer/run_log.h"
#include "zeroshard/trainer/run_settings.h"
#include "zeroshard/trainer/task.h"

namespace zeroshard {

// What one step brought, agreed by all ranks.
struct StepOutcome {
  double loss = 0.0;  // mean over ranks and micro-steps
  StepResult result = {};
  int signal = 0;  // that some rank was sent: SIGINT, SIGTERM, SIGUSR1, or 0
};

class Trainer {
 public:
  struct Parts {  // all must outlive it
    TrainingTask& task;
    Communicator& comm;
    Interrupts& interrupts;
  };
  Trainer(const TrainOptions& options, const RunSettings& run, const Parts& parts, Device device);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Trains to the last step, or until a signal asks to stop: then its number, else 0. Collective.
  int run();
  // After it: the weights, where they are asked for. Collective.
  void write_out();
  // What ran when, also after a signal. Collective.
  void write_trace_file();

  Engine& engine() { return *engine_; }

 private:
  void make_engine(Device device);
  bool is_first() const { return comm_.rank() == 0; }
  double set_learning_rate();
  StepOutcome train_step(WallClock* clock);
  StepOutcome agree(double loss_sum, const StepResult& result);
  void refuse_lost_loss(const StepOutcome& outcome, std::int64_t step) const;
  void note(const StepOutcome& outcome, std::int64_t step, double lr);
  void evaluate(std::int64_t step);

  const TrainOptions& options_;
  const RunSettings& run_;
  TrainingTask& task_;
  Communicator& comm_;
  BatchPlan batches_;
  Interrupts& interrupts_;
  std::unique_ptr<Trace> trace_;
  std::unique_ptr<Engine> engine_;
  std::optional<RunLog> log_;
  std::int64_t updates_ = 0;       // applied
  bool checkpoint_asked_ = false;  // in the step before
};

// The whole of it on this rank, from the environment's launcher to the exit code.
int train(const TrainOptions& options);

}  // namespace zeroshard
