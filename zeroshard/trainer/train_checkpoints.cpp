// What a run does about its checkpoints.
#include <csignal>

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/checkpoint/agreement.h"
#include "zeroshard/trainer/resume.h"
#include "zeroshard/trainer/train.h"

namespace zeroshard {

// Damage is met while it is read; what is read then replaces all of what was read before.
RunState Trainer::load_checkpoint() {
  std::byte* const memory = checkpoints_ ? checkpoints_->memory() : nullptr;
  for (resumed_ = options_.resume;;) {
    try {
      return resume_from(resumed_, engine_->core(), comm_, options_.seed, memory);
    } catch (const StorageError& error) {
      const auto find = [&] { return older_checkpoint(resumed_).string(); };
      const std::string older = may_go_back_ ? first_says(comm_, find, "resume") : "";
      if (older.empty()) rethrow_on_first(comm_);
      if (is_first()) log_warning("{}; {} is resumed instead", error.what(), older);
      resumed_ = older;
    } catch (const CommError&) {
      throw;
    } catch (const Error&) {
      rethrow_on_first(comm_);
    }
  }
}

void Trainer::resume() {
  const RunState saved = load_checkpoint();
  first_step_ = steps_done_ = saved.step;
  updates_ = saved.updates;
  eval_loss_ = saved.eval_loss;
  best_eval_loss_ = saved.best_eval_loss;
  batches_.go_on_from(saved.data);
  if (!is_first()) return;
  log_info("resumed from {}: step {} of {} is next", resumed_, steps_done_ + 1, run_.steps);
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
  const StopDeadline::Pause pause(deadline_);
  doing_ = "checkpoint";
  engine_->finish();
  if (is_first()) make_room();
  checkpoints_->save(state(), is_best_);
}

void Trainer::finish_save() {
  if (!checkpoints_->is_under_way()) return;
  const StopDeadline::Pause pause(deadline_);
  make_room();
  const std::optional<SaveReport> report = checkpoints_->finish();
  if (report && log_) log_->saved(steps_done_, *report);
}

void Trainer::finish_updates() {
  std::optional<StopDeadline::Pause> pause;
  if (is_held_by_save()) pause.emplace(deadline_);
  engine_->finish();
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
