// From the launcher's variables to a Trainer, and what is said before and after.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <unistd.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/launch.h"
#include "zeroshard/base/log.h"
#include "zeroshard/checkpoint/agreement.h"
#include "zeroshard/comm/join.h"
#include "zeroshard/config/read.h"
#include "zeroshard/models/spec.h"
#include "zeroshard/monitor/stop_deadline.h"
#include "zeroshard/planner/memory_fit.h"
#include "zeroshard/setup/choose_device.h"
#include "zeroshard/setup/fit_memory.h"
#include "zeroshard/trainer/closing_sample.h"
#include "zeroshard/trainer/inputs.h"
#include "zeroshard/trainer/memory_table.h"
#include "zeroshard/trainer/out_of_memory.h"
#include "zeroshard/trainer/resume.h"
#include "zeroshard/trainer/stop_vote.h"
#include "zeroshard/trainer/train.h"
#include "zeroshard/trainer/weight_files.h"

namespace zeroshard {
namespace {

// A file that cannot be read is an empty one here: resolve_run() reads it once more, in turn, and
// says it once.
std::optional<config::ParsedConfig> parse_if_readable(const TrainOptions& options) {
  try {
    return parse_config_of(options);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

void say_plan(const RunSettings& run, const Footprint& plan, const Communicator& comm,
              Device device) {
  for (const std::string& line : run.assumed) log_info("assumed: {}", line);
  for (const std::string& line : run.replaced) log_info("{}", line);
  fmt::print("{}\n", short_description(run.model));
  fmt::print(
      "stage {} on {} rank{} ({}, {} threads each), {}; batch {} = {} per rank x {} micro-steps x "
      "{}\n",
      run.config.zero.stage, comm.world_size(), comm.world_size() == 1 ? "" : "s", name_of(device),
      at::get_num_threads(), name_of(run.config.precision.model()), run.batch.train,
      run.batch.micro_per_rank, run.batch.accumulation, comm.world_size());
  fmt::print("plan per rank: {}\n", planned_line(plan));
  std::fflush(stdout);
}

void say_memory(const Footprint& plan, Trainer& trainer) {
  fmt::print("\n{}", planned_and_measured(plan, trainer.engine().core().memory()));
  fmt::print("the whole process at most {}, torch's libraries included\n",
             human_bytes(peak_resident_bytes()));
  std::fflush(stdout);
}

// Rank 0 reads first, so that what is wrong is said once.
template <typename Read>
auto in_turn(Communicator& comm, const Read& read) {
  if (comm.rank() != 0) comm.barrier("rank 0 has read the input").wait();
  auto result = read();
  if (comm.rank() == 0) comm.barrier("rank 0 has read the input").wait();
  return result;
}

// Where several ranks have the same to say, rank 0 says it, and its end ends the others meanwhile:
// some seconds later, for it waits for who else might have something to say.
std::chrono::seconds turn_to_speak(int rank) { return std::chrono::seconds(4) * std::min(rank, 2); }

// What is under way cannot be ended halfway, so the process is.
[[noreturn]] void abandon(int signal, const TrainOptions& options) {
  log_warning("{}; what is under way has not ended within {} s and is abandoned{}",
              interrupt_text(signal), kStopPatience.count(),
              options.out.empty() ? "" : "; --out is not written");
  _exit(exit_code_of(signal));
}

// Of several ranks one abandons the step a moment before the others, who then miss it.
bool others_abandon(const Interrupts& interrupts) {
  constexpr std::chrono::seconds kSlack{1};
  const auto asked_for = interrupts.stop_asked_for();
  return asked_for && *asked_for > kStopPatience - kSlack;
}

int run_steps(Trainer& trainer, const RunSettings& run, int rank) {
  try {
    return trainer.run();
  } catch (const Error&) {
    throw;
  } catch (...) {
    const auto refused = refused_memory(std::current_exception());
    if (!refused) throw;
    std::this_thread::sleep_for(turn_to_speak(rank));
    trainer.make_room();
    fmt::print(stderr, "{}", held_table(trainer.engine().core().memory()));
    throw out_of_memory(*refused, trainer.whereabouts(), run);
  }
}

// Of what all ranks do together, and fail in together.
template <typename Act>
auto said_once(Communicator& comm, const Act& act) {
  try {
    return act();
  } catch (const CommError&) {
    throw;
  } catch (const Error&) {
    rethrow_on_first(comm);
  }
}

// The options, with the folder of the checkpoint that is resumed, or none.
TrainOptions with_checkpoint(const TrainOptions& asked, Communicator& comm) {
  TrainOptions options = asked;
  if (asked.resume.empty()) return options;
  const auto find = [&] {
    const auto found = checkpoint_to_resume(asked);
    return found ? std::filesystem::absolute(*found).string() : std::string();
  };
  options.resume = said_once(comm, [&] { return first_says(comm, find, "resume"); });
  return options;
}

void open_folder(const TrainOptions& options, Communicator& comm,
                 std::optional<SaveFolder>& folder) {
  folder.emplace(comm, options.save,
                 SaveFolderOptions{.keep = static_cast<std::size_t>(options.keep)});
}

// How checkpoints are written beside training, and what of the plan that takes.
SaveMode choose_save_mode(const TrainOptions& options, const ModelLayout& layout,
                          FootprintOptions& counted, Device device, Communicator& comm) {
  if (options.save.empty()) return SaveMode::foreground;
  const Footprint without = footprint(layout, counted);
  const std::int64_t copy = save_snapshot_bytes(layout, counted.moments_per_parameter);
  const std::int64_t on_host = without.total(Tier::host) + copy;
  const std::int64_t in_memory = on_host + (device == kCpu ? without.total(Tier::device) : 0);
  const auto budget = counted.zero.host_budget_bytes;
  const bool fits = budget ? on_host <= *budget : has_ample_room(in_memory, comm);
  counted.save = {.saves = true, .snapshot = fits};
  if (comm.rank() == 0) {
    log_info("{}", fits ? fmt::format("checkpoints are written beside training from a copy, {} per "
                                      "rank in host memory",
                                      human_bytes(copy))
                        : fmt::format("checkpoints are written beside training unit by unit, and "
                                      "updates wait for them: {} leaves no room for a copy of {}",
                                      budget ? "host_budget" : "host memory", human_bytes(copy)));
  }
  return fits ? SaveMode::snapshot : SaveMode::stream;
}

struct Stop {  // how a run learns that it should
  Interrupts& interrupts;
  StopDeadline& deadline;
};

// The exit code.
int train_on_rank(const TrainOptions& asked, const Launch& launch, const Stop& stop) {
  const Device device = choose_device(asked.device, launch.local_rank);
  const auto parsed = parse_if_readable(asked);
  const auto comm =
      join_ranks(parsed ? config::read_config(*parsed).config.comm : CommOptions{}, device);
  const TrainOptions options = with_checkpoint(asked, *comm);
  const bool has_idle_cores = choose_threads(*comm);
  const auto task = in_turn(*comm, [&] { return make_task(options, model_of(options)); });
  const RunSettings run = in_turn(*comm, [&] {
    const config::ReadResult read =
        read_config_of(options, parsed ? *parsed : parse_config_of(options), comm->world_size());
    RunSettings resolved = resolve_run(options, read,
                                       {.world_size = comm->world_size(),
                                        .has_accelerator = device != kCpu,
                                        .has_idle_cores = has_idle_cores,
                                        .sample_count = task->sample_count()});
    if (comm->rank() == 0 && !options.out.empty()) {
      check_room(options.out, resolved.model, resolved.config.precision.model());
    }
    return resolved;
  });
  if (run.config.zero.deterministic) at::globalContext().setDeterministicAlgorithms(true, false);
  FootprintOptions counted = footprint_options(run.config, run.batch.accumulation);
  counted.accelerator = device != kCpu;
  const ModelLayout layout = layout_of(run, comm->world_size());
  const BudgetFit budgets = in_turn(*comm, [&] { return fit_to_budgets(layout, counted); });
  counted.first_host_unit = budgets.first_host_unit;
  counted.undo_limit_bytes = budgets.undo_limit_bytes;
  const SaveMode save_mode = choose_save_mode(options, layout, counted, device, *comm);
  const Footprint plan = footprint(layout, counted);
  if (comm->rank() == 0) say_plan(run, plan, *comm, device);
  std::optional<SaveFolder> saves;
  if (!options.save.empty()) said_once(*comm, [&] { open_folder(options, *comm, saves); });

  Trainer trainer(options, run,
                  {.task = *task,
                   .comm = *comm,
                   .interrupts = stop.interrupts,
                   .saves = saves ? &*saves : nullptr,
                   .save_mode = save_mode},
                  device);
  const int signal = run_steps(trainer, run, comm->rank());
  bool is_saved = true;
  {
    const StopDeadline::Pause pause(stop.deadline);  // what is written is written to its end
    trainer.write_trace_file();
    if (signal == 0) trainer.refuse_untrained();
    is_saved = trainer.save_last();
    trainer.write_out();
  }
  if (signal != 0) return exit_code_of(signal);
  if (comm->rank() == 0) say_memory(plan, trainer);
  const int code = is_saved ? 0 : 1;
  if (options.no_sample) return code;
  const int ended_by = show_sample(*task, options.seed, *comm, stop.interrupts);
  return ended_by == 0 ? code : exit_code_of(ended_by);
}

}  // namespace

int train(const TrainOptions& options) {
  Interrupts interrupts;  // first: nobody should die of a signal that asks for something
  const Launch launch = read_launch();
  StopDeadline deadline(interrupts, kStopPatience + turn_to_speak(launch.rank),
                        [&](int signal) { abandon(signal, options); });
  try {
    return train_on_rank(options, launch, {interrupts, deadline});
  } catch (const CommError&) {
    if (!others_abandon(interrupts)) throw;
    return exit_code_of(interrupts.stop_requested());
  }
}

}  // namespace zeroshard
