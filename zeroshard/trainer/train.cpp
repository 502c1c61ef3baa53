#include "zeroshard/trainer/train.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <utility>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/checkpoint/agreement.h"
#include "zeroshard/engine/init.h"
#include "zeroshard/models/initializer.h"
#include "zeroshard/schedule/lr_schedule.h"
#include "zeroshard/setup/engine_options.h"
#include "zeroshard/trainer/memory_table.h"
#include "zeroshard/trainer/stop_vote.h"
#include "zeroshard/trainer/weight_files.h"
#include "zeroshard/trainer/weights.h"

namespace zeroshard {
namespace {

// Ranks talk between the micro-steps of steps that are longer; it costs short ones too much.
constexpr float kLongStepSeconds = 1.0F;
// For what comes between the last micro-step and the end of the patience.
constexpr std::chrono::milliseconds kStopMargin{500};

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
      interrupts_(parts.interrupts),
      deadline_(parts.deadline),
      memory_(parts.memory),
      device_(device),
      may_go_back_(parts.may_go_back) {
  if (!options.trace.empty()) trace_ = std::make_unique<Trace>(TraceOptions{.rank = comm_.rank()});
  make_engine();
  if (parts.saves != nullptr) {
    checkpoints_.emplace(
        options_, run_,
        RunCheckpoints::Parts{
            .comm = comm_, .folder = *parts.saves, .core = engine_->core(), .device = device_},
        parts.save_mode);
  }
  if (options_.resume.empty()) {
    take_initial_weights();
  } else {
    resume();
  }
  if (is_first()) log_.emplace(options_, run_, engine_->core(), steps_done_);
}

Trainer::~Trainer() = default;

void Trainer::make_engine() {
  EngineOptions options = engine_options(run_.config, device_, run_.batch.accumulation);
  options.threads = at::get_num_threads();
  options.trace = trace_.get();
  torch::nn::Module* model = nullptr;
  {
    const Init scope(options, comm_, options_.seed);
    model = &task_.make_model(device_);
  }
  engine_ = std::make_unique<Engine>(*model, options, comm_);
}

void Trainer::take_initial_weights() {
  if (options_.init.empty()) {
    engine_->fill_parameters(initializer(run_.model, options_.seed));
    return;
  }
  const auto fill = [&] {
    const StateFiles files = StateFiles::open(options_.init);
    check_weights(files, run_.model);
    engine_->fill_parameters(weights_from(files));
  };
  try {
    all_do(comm_, fill, "initial weights");
  } catch (const CommError&) {
    throw;
  } catch (const Error&) {
    rethrow_on_first(comm_);
  }
}

int Trainer::run() {
  for (step_ = steps_done_ + 1; step_ <= run_.steps; ++step_) {
    const double lr = set_learning_rate();
    const StepOutcome outcome = train_step(log_ ? log_->clock() : nullptr);
    if (!outcome.abandoned) {
      refuse_lost_loss(outcome);
      note(outcome, lr);
    }
    if (outcome.signal != 0) say_stop(outcome);
    if (interrupts_training(outcome.signal)) return outcome.signal;
    if (step_ == run_.steps) break;
    const bool due = options_.eval_every > 0 && step_ % options_.eval_every == 0;
    if (due) {
      if (const int signal = evaluate()) return signal;
    }
    look_after_checkpoints(outcome);
  }
  step_ = steps_done_;
  return evaluate();
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
  using Clock = std::chrono::steady_clock;
  std::optional<StopDeadline::Pause> pause;
  if (is_held_by_save()) pause.emplace(deadline_);
  const auto start = Clock::now();
  std::chrono::nanoseconds longest{};
  StepLoss loss(device_);
  StepResult result;
  for (std::int64_t micro = 0; micro < run_.batch.accumulation; ++micro) {
    const auto part_start = Clock::now();
    result = train_micro_step(micro, clock, loss);
    if (result.boundary || !has_long_steps_) continue;
    longest = std::max<std::chrono::nanoseconds>(longest, Clock::now() - part_start);
    const StopVote vote = vote_to_stop(comm_, interrupts_, would_end_late(longest));
    if (vote.enough) return {.signal = vote.signal, .abandoned = true};
  }
  batches_.advance();
  memory_.end_step();
  return agree(loss.receive(), std::chrono::duration<double>(Clock::now() - start).count(), result);
}

template <typename Part>
void Trainer::timed(WallClock* clock, const char* name, const Part& part) {
  const WallClock::Scope scope(clock, doing_ = name);
  part();
  if (clock != nullptr) Stream::current(device_).synchronize();
}

StepResult Trainer::train_micro_step(std::int64_t micro, WallClock* clock, StepLoss& step_loss) {
  at::Tensor loss;
  timed(clock, "forward", [&] { loss = task_.loss(batches_.samples_of(micro)); });
  note_memory(StepPhase::forward);
  timed(clock, "backward", [&] { engine_->backward(loss); });
  note_memory(StepPhase::backward);
  step_loss.add(loss);
  // Before the step, whose norm the host waits for: the sum has then arrived as well.
  if (micro + 1 == run_.batch.accumulation) step_loss.send();
  StepResult result;
  timed(clock, "step", [&] { result = engine_->step(); });
  note_memory(StepPhase::step);
  return result;
}

// The host's own book-keeping: nothing is waited for.
void Trainer::note_memory(StepPhase phase) {
  memory_.after(phase, engine_->core().memory().total(Tier::device));
}

// Whether another part of this length would end when the process is to be gone already.
bool Trainer::would_end_late(std::chrono::nanoseconds part) const {
  const auto asked_for = interrupts_.stop_asked_for();
  return asked_for && *asked_for + part + part / 2 + kStopMargin > kStopPatience;
}

// One small message: the loss to show, whether somebody was asked to stop, and how long it took.
StepOutcome Trainer::agree(double loss_sum, double seconds, const StepResult& result) {
  const int signal = interrupts_.requested();
  const auto asked = [&](int which) { return signal == which ? 1.0F : 0.0F; };
  const auto told = [](bool yes) { return yes ? 1.0F : 0.0F; };
  const bool due = checkpoints_ && is_first() && checkpoints_->is_due(step_);
  const bool over = checkpoints_ && checkpoints_->is_over();
  std::array<float, 7> all{
      static_cast<float>(loss_sum), asked(SIGINT), asked(SIGTERM), asked(SIGUSR1),
      static_cast<float>(seconds),  told(due),     told(over)};
  comm_.all_reduce({all.data(), all.size(), DType::fp32}, ReduceOp::sum, "loss").wait();
  const double parts = static_cast<double>(run_.batch.accumulation * comm_.world_size());
  StepOutcome outcome{.loss = static_cast<double>(all[0]) / parts, .result = result};
  if (all[1] > 0) outcome.signal = SIGINT;
  if (all[2] > 0) outcome.signal = SIGTERM;
  // Ranks hear of one request in different steps, one apart at most.
  const bool asks = all[3] > 0;
  const bool asked_before = std::exchange(checkpoint_asked_, asks);
  if (outcome.signal == 0 && asks && !asked_before) outcome.signal = SIGUSR1;
  const auto ranks = static_cast<float>(comm_.world_size());
  has_long_steps_ = all[4] > kLongStepSeconds * ranks;
  outcome.save_due = all[5] > 0;
  outcome.save_over = all[6] == ranks;
  return outcome;
}

// Rank 0 says it. It may not have received yet what told the others, so they do not end before it:
// their barrier fails when rank 0 is gone.
void Trainer::fail(const Fault& fault) const {
  if (is_first()) throw StateError(fault);
  comm_.barrier("rank 0 says what went wrong").wait();
  throw PeerError(fault);
}

// In fp16 a loss may overflow where a smaller scale helps: the step was skipped and training goes
// on.
void Trainer::refuse_lost_loss(const StepOutcome& outcome) const {
  if (std::isfinite(outcome.loss)) return;
  if (run_.config.precision.fp16.enabled && !outcome.result.applied) return;
  fail({.what = fmt::format("the loss is not a number any more in step {}", step_),
        .value = std::isnan(outcome.loss) ? "nan" : fmt::format("{}", outcome.loss),
        .remedy = "lower the learning rate, clip gradients (gradient_clipping), or warm up"});
}

void Trainer::refuse_untrained() const {
  if (updates_ > 0) return;
  const Fp16Options& fp16 = run_.config.precision.fp16;
  fail({.what = "every step was skipped for gradients that are not finite, and nothing was learnt" +
                std::string(options_.out.empty() ? "" : "; --out is not written"),
        .value = fmt::format("{} step{}, the last with loss scale {}", steps_done_,
                             steps_done_ == 1 ? "" : "s", loss_scale_),
        .remedy = !fp16.enabled          ? "lower the learning rate, or clip gradients"
                  : fp16.loss_scale == 0 ? "train longer (the loss scale halves on the way), or "
                                           "give a smaller fp16.initial_scale_power, or bf16"
                                         : "give a smaller fp16.loss_scale, or 0 to have one "
                                           "found, or bf16"});
}

void Trainer::note(const StepOutcome& outcome, double lr) {
  steps_done_ = step_;
  eval_loss_.reset();
  is_best_ = false;
  loss_scale_ = outcome.result.loss_scale;
  if (outcome.result.applied) ++updates_;
  if (!log_) return;
  log_->step({.step = step_,
              .loss = outcome.loss,
              .lr = lr,
              .result = outcome.result,
              .samples = batches_.position().samples,
              .tokens = run_.batch.train * task_.tokens_per_sample()});
}

void Trainer::say_stop(const StepOutcome& outcome) {
  if (!is_first()) return;
  make_room();
  const std::string asked = interrupt_text(outcome.signal);
  if (outcome.abandoned) {
    log_info("{} (step {} of {} would not have ended within {} s and is abandoned)", asked, step_,
             run_.steps, kStopPatience.count());
  } else {
    log_info("{} (step {} of {} is done)", asked, step_, run_.steps);
  }
}

// Returns the signal that ended it early, or 0.
int Trainer::evaluate() {
  doing_ = "evaluation";
  finish_updates();  // with delayed updates the newest values are not there by themselves
  StopVote vote;
  const std::optional<double> loss = task_.evaluate(comm_, run_.batch.micro_per_rank, [&] {
    vote = vote_to_stop(comm_, interrupts_);
    return vote.signal == 0;
  });
  if (vote.signal != 0) say_stop({.signal = vote.signal});
  if (loss && log_) log_->evaluation(step_, batches_.position().samples, *loss);
  eval_loss_ = loss;
  // One that is no number is not the best, and nothing would ever be below it.
  is_best_ = loss && std::isfinite(*loss) && (!best_eval_loss_ || *loss < *best_eval_loss_);
  if (is_best_) best_eval_loss_ = loss;
  return vote.signal;
}

std::string Trainer::whereabouts() const {
  const std::string unit = engine_->core().last_unit();
  return fmt::format("step {}, {}{}", step_, doing_, unit.empty() ? "" : ", unit " + unit);
}

void Trainer::record(const JsonObject& what) {
  if (log_) log_->record(what);
}

void Trainer::write_report() {
  if (!log_ || options_.report.empty()) return;
  log_->write_report(options_.report);
  log_info("wrote {}", options_.report);
}

void Trainer::make_room() {
  if (log_) log_->clear();
}

void Trainer::write_out() {
  engine_->finish();
  memory_.rest();
  make_room();
  const std::int64_t skipped = steps_done_ - updates_;
  if (is_first() && skipped > 0) {
    log_warning(
        "{} of {} steps were skipped for gradients that are not finite; the last loss scale "
        "was {}",
        skipped, steps_done_, loss_scale_);
  }
  if (options_.out.empty()) return;
  if (updates_ == 0) {
    if (is_first()) log_warning("{} is not written: no step has changed a weight", options_.out);
    return;
  }
  write_weights(*engine_, comm_, run_.model, options_.out);
  if (!is_first()) return;
  const bool whole = steps_done_ == run_.steps;
  log_info("wrote {}{}", options_.out,
           whole ? "" : fmt::format(": the weights after step {} of {}", steps_done_, run_.steps));
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
