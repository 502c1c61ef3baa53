#include "zeroshard/trainer/run_checkpoints.h"

#include <utility>

#include <fmt/format.h>
#include <torch/version.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/duration.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/checkpoint/agreement.h"
#include "zeroshard/checkpoint/model_states.h"
#include "zeroshard/engine/core_states.h"
#include "zeroshard/models/spec.h"
#include "zeroshard/trainer/rng_states.h"

namespace zeroshard {
namespace {

StateBuffer snapshot_memory(Core& core, SaveMode mode) {
  if (mode != SaveMode::snapshot) return {};
  std::vector<UnitLayout> units;
  for (std::size_t i = 0; i < core.units(); ++i) units.push_back(core.unit(i).layout());
  int moments = 0;
  for (const OptimizerOptions& group : core.parameter_groups()) {
    moments = std::max(moments, moments_per_parameter(group));
  }
  return core.state_memory().allocate(Category::buffers, Tier::host,
                                      save_snapshot_bytes(ModelLayout(std::move(units)), moments));
}

SaverOptions saver_options(SaveMode mode, const StateBuffer& staging, const StateBuffer& snapshot) {
  return {.mode = mode,
          .staging = static_cast<std::byte*>(staging.data()),
          .snapshot = static_cast<std::byte*>(snapshot.data())};
}

std::string tag_of(std::int64_t step) { return fmt::format("global_step{}", step); }

std::string duration_text(std::chrono::nanoseconds duration) {
  return human_duration(std::chrono::duration_cast<std::chrono::milliseconds>(duration));
}

}  // namespace

RunCheckpoints::RunCheckpoints(const TrainOptions& options, const RunSettings& run,
                               const Parts& parts, SaveMode mode)
    : options_(options),
      run_(run),
      of_(parts),
      mode_(mode),
      staging_(of_.core.state_memory().allocate_ring(kSaveStagingBytes)),
      snapshot_(snapshot_memory(of_.core, mode)),
      saver_(of_.folder, of_.comm, saver_options(mode, staging_, snapshot_)) {}

bool RunCheckpoints::is_due(std::int64_t step) const {
  const SaveEvery& every = options_.save_every;
  if (every.steps > 0) return step % every.steps == 0;
  return std::chrono::steady_clock::now() - last_begun_ >= every.time;
}

SaveContents RunCheckpoints::contents_of_run(const TensorStates& states,
                                             const RunState& state) const {
  SaveContents contents = contents_of(states);
  contents.blobs = rng_blobs(of_.device);
  if (of_.comm.rank() != 0) return contents;
  contents.run = numbers_of(state);
  contents.run.set("stage", std::int64_t{run_.config.zero.stage});
  contents.documents = {{"config.json", to_json(run_.model)}, {"ds_config.json", run_.config_text}};
  contents.written_by = {{"zeroshard", ZEROSHARD_VERSION}, {"torch", TORCH_VERSION}};
  return contents;
}

// Whether it did. All ranks have the same error, which ends the run, or is said.
template <typename Act>
bool RunCheckpoints::succeeds(const Act& act) {
  try {
    act();
    return true;
  } catch (const CommError&) {
    throw;
  } catch (const Error& error) {
    if (options_.on_save_error == OnSaveError::stop) rethrow_on_first(of_.comm);
    if (of_.comm.rank() == 0) {
      log_warning("{}; there is no checkpoint of step {}", error.what(), step_under_way_);
    }
    return false;
  }
}

void RunCheckpoints::save(const RunState& state, bool best) {
  last_begun_ = std::chrono::steady_clock::now();
  step_under_way_ = state.step;
  succeeds([&] {
    const SaveRequest request{.tag = tag_of(state.step), .best = best};
    std::shared_ptr<CoreStates> states;
    SaveContents contents;
    const auto take_contents = [&] {
      states = std::make_shared<CoreStates>(of_.core);
      contents = contents_of_run(*states, state);
    };
    all_do(of_.comm, take_contents, "save " + request.tag);
    saver_.save(request, std::move(states), std::move(contents));
  });
}

std::optional<SaveReport> RunCheckpoints::finish() {
  if (!saver_.is_under_way()) return std::nullopt;
  std::optional<SaveReport> report;
  if (!succeeds([&] { report = saver_.finish(); })) return std::nullopt;
  last_step_ = step_under_way_;
  if (of_.comm.rank() == 0) {
    log_info("saved {}: {} in {}, training paused for {}",
             (of_.folder.root() / report->tag).string(),
             human_bytes(static_cast<std::int64_t>(report->bytes)), duration_text(report->took),
             duration_text(report->paused));
  }
  return report;
}

void rethrow_on_first(Communicator& comm) {
  if (comm.rank() == 0) throw;
  try {
    throw;
  } catch (const Error& error) {
    // It may not have received yet what told the others: their barrier fails when it is gone.
    const Fault fault = error.fault();
    comm.barrier("rank 0 says what went wrong").wait();
    throw PeerError(fault);
  }
}

// Said by each rank of its own.
void say_settled(std::int64_t ties, int rank) {
  if (ties == 0) return;
  log_info(
      "{} masters of rank {} were exact ties of two bf16 values and gave their last bit away "
      "(docs/kernels.md)",
      ties, rank);
}

RunState resume_from(const std::string& folder, Core& core, Communicator& comm, std::uint64_t seed,
                     std::byte* memory) {
  RunState state;
  const auto load = [&] {
    const StateFiles files = StateFiles::open_checkpoint(folder);
    CoreStates states(core);
    say_settled(load_states(files, states, {.memory = memory}).settled_ties, comm.rank());
    state = run_state_of(files.manifest().run, seed);
    // Generators of other ranks are of no use to this one.
    if (files.manifest().ranks != comm.world_size()) return;
    RangeReader reader = files.reader();
    restore_rng(core.state_memory().device(),
                [&](const std::string& name) { return reader.read_blob(name, comm.rank()); });
  };
  all_do(comm, load, "resume");
  core.adopt_masters();
  core.scaler().restore(state.scaler);
  return state;
}

}  // namespace zeroshard
