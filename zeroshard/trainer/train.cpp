#include "zeroshard/trainer/train.h"

#include <array>
#include <cmath>
#include <csignal>
#include <utility>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/engine/init.h"
#include "zeroshard/models/initializer.h"
#include "zeroshard/schedule/lr_schedule.h"
#include "zeroshard/trainer/engine_options.h"
#include "zeroshard/trainer/memory_table.h"
#include "zeroshard/trainer/weight_files.h"
#include "zeroshard/trainer/weights.h"

namespace zeroshard {
namespace {

BatchShape shape_of(const RunSettings& run, const Communicator& comm) {
  return {.micro_per_rank = run.batch.micro_per_rank,
          .accumulation = run.batch.accumulation,
          .rank = comm.rank(),
          .world_size = comm.world_size()};
}

void set_values(OptimizerOptions& group, const ScheduleValue& value) {
  const auto set = [&](auto& options) {
    options.lr = value.lr;
    if constexpr (requires { options.betas; }) {
      if (value.betas) options.betas = {value.betas->beta1, value.betas->beta2};
    }
  };
  std::visit(set, group);
}

std::string gathered_text(Communicator& comm, const std::string& mine, int from) {
  auto size = static_cast<std::int32_t>(mine.size());
  comm.broadcast({&size, 1, DType::int32}, from, "trace").wait();
  std::string text = comm.rank() == from ? mine : std::string(static_cast<std::size_t>(size), ' ');
  if (size > 0) comm.broadcast({text.data(), size, DType::uint8}, from, "trace").wait();
  return text;
}

}  // namespace

Trainer::Trainer(const TrainOptions& options, const RunSettings& run, const Parts& parts,
                 Device device)
    : options_(options),
      run_(run),
      task_(parts.task),
      comm_(parts.comm),
      batches_(task_.sample_count(), shape_of(run, comm_),
               {.drop_last = run.config.batch.drop_last, .start = {.seed = options.seed}}),
      interrupts_(parts.interrupts) {
  if (!options.trace.empty()) trace_ = std::make_unique<Trace>(TraceOptions{.rank = comm_.rank()});
  make_engine(device);
  if (is_first()) log_.emplace(options_, run_, engine_->core());
}

Trainer::~Trainer() = default;

void Trainer::make_engine(Device device) {
  EngineOptions options = engine_options(run_.config, device, run_.batch.accumulation);
  options.threads = at::get_num_threads();
  options.trace = trace_.get();
  torch::nn::Module* model = nullptr;
  {
    const Init scope(options, comm_, options_.seed);
    model = &task_.make_model(device);
  }
  engine_ = std::make_unique<Engine>(*model, options, comm_);
  if (options_.init.empty()) {
    engine_->fill_parameters(initializer(run_.model, options_.seed));
    return;
  }
  // Rank 0 looks first, so that what is wrong is said once.
  if (!is_first()) comm_.barrier("rank 0 has seen the weights").wait();
  const ModelFolder folder = ModelFolder::open(options_.init);
  check_weights(folder, run_.model);
  if (is_first()) comm_.barrier("rank 0 has seen the weights").wait();
  engine_->fill_parameters(weights_from(folder));
}

int Trainer::run() {
  for (std::int64_t step = 1; step <= run_.steps; ++step) {
    const double lr = set_learning_rate();
    const StepOutcome outcome = train_step(log_ ? log_->clock() : nullptr);
    refuse_lost_loss(outcome, step);
    note(outcome, step, lr);
    const bool due = options_.eval_every > 0 && step % options_.eval_every == 0;
    if (due && step < run_.steps) evaluate(step);
    if (interrupts_training(outcome.signal)) return outcome.signal;
  }
  evaluate(run_.steps);
  return 0;
}

// A schedule counts the updates that were applied: a skipped step keeps its learning rate.
double Trainer::set_learning_rate() {
  auto& groups = engine_->core().parameter_groups();
  if (run_.config.scheduler) {
    const double own = learning_rate(*run_.config.optimizer);
    const ScheduleValue value =
        schedule_at(*run_.config.scheduler, iteration_of_update(updates_ + 1), own);
    for (OptimizerOptions& group : groups) set_values(group, value);
  }
  return learning_rate(groups.front());
}

StepOutcome Trainer::train_step(WallClock* clock) {
  double loss_sum = 0.0;
  StepResult result;
  for (std::int64_t micro = 0; micro < run_.batch.accumulation; ++micro) {
    at::Tensor loss;
    {
      const WallClock::Scope scope(clock, "forward");
      loss = task_.loss(batches_.samples_of(micro));
    }
    {
      const WallClock::Scope scope(clock, "backward");
      engine_->backward(loss);
    }
    const WallClock::Scope scope(clock, "step");
    result = engine_->step();
    loss_sum += loss.item<double>();
  }
  batches_.advance();
  return agree(loss_sum, result);
}

// One small message: the loss to show, and whether somebody was asked to stop.
StepOutcome Trainer::agree(double loss_sum, const StepResult& result) {
  const int signal = interrupts_.requested();
  const auto asked = [&](int which) { return signal == which ? 1.0F : 0.0F; };
  std::array<float, 4> all{static_cast<float>(loss_sum), asked(SIGINT), asked(SIGTERM),
                           asked(SIGUSR1)};
  comm_.all_reduce({all.data(), 4, DType::fp32}, ReduceOp::sum, "loss").wait();
  const double parts = static_cast<double>(run_.batch.accumulation * comm_.world_size());
  StepOutcome outcome{.loss = static_cast<double>(all[0]) / parts, .result = result};
  if (all[1] > 0) outcome.signal = SIGINT;
  if (all[2] > 0) outcome.signal = SIGTERM;
  // Ranks hear of one request in different steps, one apart at most.
  const bool asks = all[3] > 0;
  const bool asked_before = std::exchange(checkpoint_asked_, asks);
  if (outcome.signal == 0 && asks && !asked_before) outcome.signal = SIGUSR1;
  return outcome;
}

// In fp16 a loss may overflow where a smaller scale helps: the step was skipped and training goes
// on.
void Trainer::refuse_lost_loss(const StepOutcome& outcome, std::int64_t step) const {
  if (std::isfinite(outcome.loss)) return;
  if (run_.config.precision.fp16.enabled && !outcome.result.applied) return;
  const Fault fault{
      .what = fmt::format("the loss is not a number any more in step {}", step),
      .value = std::isnan(outcome.loss) ? "nan" : fmt::format("{}", outcome.loss),
      .remedy = "lower the learning rate, clip gradients (gradient_clipping), or warm up"};
  if (is_first()) throw StateError(fault);
  throw PeerError(fault);
}

void Trainer::note(const StepOutcome& outcome, std::int64_t step, double lr) {
  if (outcome.result.applied) ++updates_;
  if (!log_) return;
  log_->step({.step = step,
              .loss = outcome.loss,
              .lr = lr,
              .result = outcome.result,
              .samples = batches_.position().samples,
              .tokens = run_.batch.train * task_.tokens_per_sample()});
  if (outcome.signal == 0) return;
  log_->clear();
  log_info("{} (step {} of {} is done)", interrupt_text(outcome.signal), step, run_.steps);
}

void Trainer::evaluate(std::int64_t step) {
  const std::optional<double> loss = task_.evaluate(comm_, run_.batch.micro_per_rank);
  if (loss && log_) log_->evaluation(step, batches_.position().samples, *loss);
}

void Trainer::write_out() {
  engine_->finish();
  if (log_) log_->clear();
  if (options_.out.empty()) return;
  write_weights(*engine_, comm_, run_.model, options_.out);
  if (is_first()) log_info("wrote {}", options_.out);
}

void Trainer::write_trace_file() {
  if (!trace_) return;
  const std::string mine = trace_->events_json();
  std::vector<std::string> parts;
  for (int rank = 0; rank < comm_.world_size(); ++rank) {
    std::string part = gathered_text(comm_, mine, rank);
    if (is_first()) parts.push_back(std::move(part));
  }
  if (!is_first()) return;
  write_trace(options_.trace, parts);
  log_info("wrote {}; open it in ui.perfetto.dev", options_.trace);
}

}  // namespace zeroshard
