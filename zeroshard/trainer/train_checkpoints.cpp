// What a run does about its checkpoints.
#include <csignal>

#include <fmt/format.h>

#include "zeroshard/base/log.h"
#include "zeroshard/trainer/train.h"

namespace zeroshard {

void Trainer::resume() {
  std::byte* const memory = checkpoints_ ? checkpoints_->memory() : nullptr;
  const RunState saved =
      resume_from(options_.resume, engine_->core(), comm_, options_.seed, memory);
  first_step_ = steps_done_ = saved.step;
  updates_ = saved.updates;
  eval_loss_ = saved.eval_loss;
  best_eval_loss_ = saved.best_eval_loss;
  batches_.go_on_from(saved.data);
  if (!is_first()) return;
  log_info("resumed from {}: step {} of {} is next", options_.resume, steps_done_ + 1, run_.steps);
  if (saved.sample_count > 0 && saved.sample_count != task_.sample_count()) {
    log_warning(
        "the data has {} samples now and had {}: what was seen may come again before the rest",
        task_.sample_count(), saved.sample_count);
  }
}

RunState Trainer::state() const {
  return {.step = steps_done_,
          .updates = updates_,
          .data = batches_.position(),
          .sample_count = task_.sample_count(),
          .scaler = engine_->core().scaler().state(),
          .eval_loss = eval_loss_,
          .best_eval_loss = best_eval_loss_};
}

// Every rank does the same here: what it goes by was agreed, or follows from what was.
void Trainer::look_after_checkpoints(const StepOutcome& outcome) {
  if (!checkpoints_) {
    if (outcome.signal == SIGUSR1 && is_first()) {
      make_room();
      log_warning("there is no folder for checkpoints: give one with --save");
    }
    return;
  }
  // Who names steps, and the best weights, mean these and no later ones: the save before is waited
  // for. What is due by the clock comes when that is over.
  const bool means_this_step = is_best_ || (outcome.save_due && options_.save_every.steps > 0);
  if (outcome.save_over || means_this_step) finish_save();
  save_pending_ = save_pending_ || outcome.save_due || outcome.signal == SIGUSR1 || is_best_;
  if (!save_pending_ || checkpoints_->is_under_way()) return;
  save_pending_ = false;
  doing_ = "checkpoint";
  engine_->finish();
  if (is_first()) make_room();
  checkpoints_->save(state(), is_best_);
}

void Trainer::finish_save() {
  if (!checkpoints_->is_under_way()) return;
  make_room();
  const std::optional<SaveReport> report = checkpoints_->finish();
  if (report && log_) log_->saved(steps_done_, *report);
}

bool Trainer::save_last() {
  if (!checkpoints_) return true;
  finish_save();
  if (steps_done_ == first_step_ || checkpoints_->last_step() == steps_done_) return true;
  doing_ = "checkpoint";
  engine_->finish();
  make_room();
  checkpoints_->save(state(), is_best_);
  finish_save();
  return checkpoints_->last_step() == steps_done_;
}

}  // namespace zeroshard
