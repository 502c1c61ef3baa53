// From the launcher's variables to a Trainer, and what is said before and after.
#include <csignal>
#include <cstdio>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/launch.h"
#include "zeroshard/base/log.h"
#include "zeroshard/comm/join.h"
#include "zeroshard/config/read.h"
#include "zeroshard/models/spec.h"
#include "zeroshard/trainer/choose_device.h"
#include "zeroshard/trainer/inputs.h"
#include "zeroshard/trainer/memory_table.h"
#include "zeroshard/trainer/train.h"
#include "zeroshard/trainer/weight_files.h"

namespace zeroshard {
namespace {

// A file that cannot be read is reported later, once.
CommOptions comm_options(const TrainOptions& options) {
  try {
    if (!options.config.empty()) return config::read_config_file(options.config).config.comm;
  } catch (const Error&) {
  }
  return {};
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

}  // namespace

int train(const TrainOptions& options) {
  Interrupts interrupts;  // first: nobody should die of a signal that asks for something
  const Launch launch = read_launch();
  const Device device = choose_device(options.device, launch.local_rank);
  const auto comm = join_ranks(comm_options(options), device);
  const bool has_idle_cores = choose_threads(*comm);
  const auto task = in_turn(*comm, [&] { return make_task(options, model_of(options)); });
  const RunSettings run = in_turn(*comm, [&] {
    RunSettings resolved = resolve_run(options, {.world_size = comm->world_size(),
                                                 .has_accelerator = device != kCpu,
                                                 .has_idle_cores = has_idle_cores,
                                                 .sample_count = task->sample_count()});
    if (comm->rank() == 0 && !options.out.empty()) {
      check_room(options.out, resolved.model, resolved.config.precision.model());
    }
    return resolved;
  });
  if (run.config.zero.deterministic) at::globalContext().setDeterministicAlgorithms(true, false);
  const Footprint plan = footprint(layout_of(run, comm->world_size()),
                                   footprint_options(run.config, run.batch.accumulation));
  if (comm->rank() == 0) say_plan(run, plan, *comm, device);

  Trainer trainer(options, run, {*task, *comm, interrupts}, device);
  const int signal = trainer.run();
  trainer.write_trace_file();
  // A checkpoint on a signal will be saved here: every rank is behind the same step.
  if (signal != 0) return exit_code_of(signal);
  trainer.write_out();
  if (comm->rank() == 0) say_memory(plan, trainer);
  const std::string sample = task->sample(options.seed);  // all ranks take part
  if (comm->rank() == 0 && !sample.empty()) fmt::print("\nsample:\n{}\n", sample);
  return 0;
}

}  // namespace zeroshard
