// From the launcher's variables to a Trainer, and what is said before and after.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
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
#include "zeroshard/device/memory_count.h"
#include "zeroshard/device/torch_cpu_memory.h"
#include "zeroshard/models/spec.h"
#include "zeroshard/monitor/stop_deadline.h"
#include "zeroshard/setup/choose_device.h"
#include "zeroshard/setup/fit_memory.h"
#include "zeroshard/setup/rank_memory.h"
#include "zeroshard/trainer/closing_sample.h"
#include "zeroshard/trainer/inputs.h"
#include "zeroshard/trainer/memory_table.h"
#include "zeroshard/trainer/memory_watch.h"
#include "zeroshard/trainer/out_of_memory.h"
#include "zeroshard/trainer/resume.h"
#include "zeroshard/trainer/run_plan.h"
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

std::string threads_text(const ThreadsOfRanks& threads, bool stay_near) {
  const std::string most = threads.most > threads.least ? fmt::format(" to {}", threads.most) : "";
  return fmt::format("{}{} threads each{}", threads.least, most,
                     stay_near ? ", near their GPU" : "");
}

void say_plan(const RunSettings& run, const Footprint& plan, const Communicator& comm,
              Device device, const std::string& threads) {
  for (const std::string& line : run.assumed) log_info("assumed: {}", line);
  for (const std::string& line : run.replaced) log_info("{}", line);
  fmt::print("{}\n", short_description(run.model));
  fmt::print(
      "stage {} on {} rank{} ({}, {}), {}; batch {} = {} per rank x {} micro-steps x "
      "{}\n",
      run.config.zero.stage, comm.world_size(), comm.world_size() == 1 ? "" : "s", name_of(device),
      threads, name_of(run.config.precision.model()), run.batch.train, run.batch.micro_per_rank,
      run.batch.accumulation, comm.world_size());
  fmt::print("plan per rank: {}\n", planned_line(plan));
  std::fflush(stdout);
}

void say_memory(const MemoryComparison& memory) {
  fmt::print("\n{}", memory_text(memory));
  std::fflush(stdout);
}

// For whoever makes a page of the log.
JsonObject run_record(const RunSettings& run, const Communicator& comm, Device device) {
  return JsonObject()
      .add("model", short_description(run.model))
      .add("stage", run.config.zero.stage)
      .add("ranks", comm.world_size())
      .add("device", name_of(device))
      .add("precision", name_of(run.config.precision.model()))
      .add("batch", run.batch.train)
      .add("micro_batch", run.batch.micro_per_rank)
      .add("micro_steps", run.batch.accumulation)
      .add("steps", run.steps);
}

// With what there is of it, if the user has not said how much a rank may take.
RunFacts facts_of(const TrainOptions& options, Device device, bool has_idle_cores,
                  const TrainingTask& task, Communicator& comm) {
  const RankMemory memory =
      agree_on_memory(device, {.device = options.device_memory, .host = options.host_memory}, comm);
  return {.world_size = comm.world_size(),
          .has_accelerator = device != kCpu,
          .has_idle_cores = has_idle_cores,
          .sample_count = task.sample_count(),
          .ranks_on_host = memory.ranks_on_host,
          .memory = memory.limits,
          .memory_is_given = options.device_memory || options.host_memory,
          .host_said_by = memory.host_said_by,
          .sums = comm.device_sums()};
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

struct Run {
  const RunSettings& settings;
  const RunFacts& facts;
  Device device;
};

std::unique_ptr<Trainer> make_trainer(const TrainOptions& options, const Run& run,
                                      const Trainer::Parts& parts) {
  try {
    return std::make_unique<Trainer>(options, run.settings, parts, run.device);
  } catch (const StateMemoryError& refused) {
    std::this_thread::sleep_for(turn_to_speak(parts.comm.rank()));
    throw with_plan(refused, run.settings, run.facts);
  } catch (const Error&) {
    throw;
  } catch (...) {
    const auto refused = refused_memory(std::current_exception());
    if (!refused) throw;
    std::this_thread::sleep_for(turn_to_speak(parts.comm.rank()));
    throw out_of_memory_at_start(*refused, run.settings, run.facts, parts.memory.most_on_device());
  }
}

int run_steps(Trainer& trainer, const Run& run, const MemoryWatch& watch, int rank) {
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
    throw out_of_memory(*refused, trainer.whereabouts(), run.settings, run.facts,
                        watch.most_on_device());
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

// The folder of the checkpoint that is resumed, or "".
std::string resumed_folder(const TrainOptions& asked, Communicator& comm) {
  if (asked.resume.empty()) return {};
  const auto find = [&] {
    const auto found = checkpoint_to_resume(asked);
    return found ? std::filesystem::absolute(found->folder).string() : std::string();
  };
  return said_once(comm, [&] { return first_says(comm, find, "resume"); });
}

void say_what_is_resumed_instead(const TrainOptions& asked) {
  if (asked.resume != kResumeAuto) return;
  const auto found = checkpoint_to_resume(asked);
  if (!found || found->instead.empty()) return;
  log_warning("{}; {} is resumed instead", found->instead, found->folder.string());
}

// A checkpoint whose replacement was cut short has its name back when the folder is open.
void open_folder(const TrainOptions& asked, TrainOptions& options, Communicator& comm,
                 std::optional<SaveFolder>& folder) {
  if (asked.save.empty()) return;
  const auto open = [&] {
    folder.emplace(comm, asked.save,
                   SaveFolderOptions{.keep = static_cast<std::size_t>(asked.keep)});
  };
  said_once(comm, open);
  options.resume = resumed_folder(asked, comm);
  if (comm.rank() == 0) say_what_is_resumed_instead(asked);
}

// How checkpoints are written beside training, and what of the plan that takes.
SaveMode choose_save_mode(const TrainOptions& options, const Run& run, RunPlan& plan,
                          Communicator& comm) {
  if (options.save.empty()) return SaveMode::foreground;
  const RunPlan with_copy = plan_of(run.settings, run.facts, {.saves = true, .snapshot = true});
  const Footprint& engine = with_copy.memory.engine;
  const std::int64_t copy = engine.buffers(BufferUse::snapshot, Tier::host);
  const std::int64_t on_host = engine.total(Tier::host);
  const std::int64_t in_memory = on_host + (run.device == kCpu ? engine.total(Tier::device) : 0);
  const auto budget = run.settings.config.zero.host_budget_bytes;
  const bool has_room = budget ? on_host <= *budget : has_ample_room(in_memory, comm);
  const bool copies = has_room && fits_memory(run.settings, with_copy, run.facts);
  plan = copies ? with_copy : plan_of(run.settings, run.facts, {.saves = true});
  if (comm.rank() == 0) {
    log_info("{}", copies ? fmt::format("checkpoints are written beside training from a copy, {} "
                                        "per rank in host memory",
                                        human_bytes(copy))
                          : fmt::format("checkpoints are written beside training unit by unit, and "
                                        "updates wait for them: {} leaves no room for a copy of {}",
                                        budget ? "host_budget" : "host memory", human_bytes(copy)));
  }
  return copies ? SaveMode::snapshot : SaveMode::stream;
}

CommOptions comm_options(const std::optional<config::ParsedConfig>& parsed) {
  if (!parsed) return {};
  const auto config = config::read_config(*parsed).config;
  CommOptions options = config.comm;
  options.deterministic = config.zero.deterministic;
  return options;
}

struct Stop {  // how a run learns that it should
  Interrupts& interrupts;
  StopDeadline& deadline;
};

// The exit code.
int train_on_rank(const TrainOptions& asked, const Launch& launch, const Stop& stop) {
  const Device device = choose_device(asked.device, launch.local_rank, asked.device_memory);
  // Before there are threads. A rank by itself has the whole machine, whose other memories its host
  // updates are as much in need of.
  const bool stays_near = launch.world_size > 1 && stay_near(device);
  if (device == kCpu) keep_torch_cpu_memory();
  if (device == kCpu && asked.device_memory) cpu_memory_count().set_limit(*asked.device_memory);
  const auto parsed = parse_if_readable(asked);
  const auto comm = join_ranks(comm_options(parsed), device);
  TrainOptions options = asked;
  options.resume = resumed_folder(asked, *comm);
  const ThreadsOfRanks threads = choose_threads(*comm, stays_near);
  const auto task = in_turn(*comm, [&] { return make_task(options, model_of(options)); });
  const RunFacts facts = facts_of(options, device, threads.leave_idle_cores, *task, *comm);
  const RunSettings run = in_turn(*comm, [&] {
    const config::ParsedConfig file = parsed ? *parsed : parse_config_of(options);
    const config::ReadResult read = read_config_of(options, file, comm->world_size());
    RunSettings resolved = resolve_run(options, read, facts);
    resolved.config_text = file.text;
    if (comm->rank() == 0 && !options.out.empty()) {
      check_room(options.out, resolved.model, resolved.config.precision.model());
    }
    return resolved;
  });
  if (run.config.zero.deterministic) at::globalContext().setDeterministicAlgorithms(true, false);
  RunPlan plan = in_turn(*comm, [&] {
    refuse_small_budgets(run, facts);
    RunPlan made = plan_of(run, facts);
    const std::string doubt = judge_memory(run, made, facts);
    if (comm->rank() == 0 && !doubt.empty()) log_warning("{}", doubt);
    return made;
  });
  const SaveMode save_mode = choose_save_mode(options, {run, facts, device}, plan, *comm);
  if (comm->rank() == 0) {
    say_plan(run, plan.memory.engine, *comm, device, threads_text(threads, stays_near));
  }
  std::optional<SaveFolder> saves;
  open_folder(asked, options, *comm, saves);

  MemoryWatch watch(device);
  const Run how{run, facts, device};
  const auto made = make_trainer(options, how,
                                 {.task = *task,
                                  .comm = *comm,
                                  .interrupts = stop.interrupts,
                                  .deadline = stop.deadline,
                                  .memory = watch,
                                  .saves = saves ? &*saves : nullptr,
                                  .save_mode = save_mode,
                                  .may_go_back = asked.resume == kResumeAuto});
  Trainer& trainer = *made;
  const int signal = run_steps(trainer, how, watch, comm->rank());
  bool is_saved = true;
  {
    const StopDeadline::Pause pause(stop.deadline);  // what is written is written to its end
    trainer.write_trace_file();
    if (signal == 0) trainer.refuse_untrained();
    is_saved = trainer.save_last();
    trainer.write_out();
    const MeasuredMemory measured = watch.measured(trainer.engine().core().memory());
    const MemoryComparison memory =
        compare_memory(plan.memory, plan.overheads, most_of_all_ranks(measured, *comm));
    trainer.record(JsonObject()
                       .add("run", run_record(run, *comm, device))
                       .add("memory", memory_record(memory)));
    trainer.write_report();
    if (comm->rank() == 0) say_memory(memory);
  }
  if (signal != 0) return exit_code_of(signal);
  const int code = is_saved ? 0 : kNotSavedExitCode;
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
