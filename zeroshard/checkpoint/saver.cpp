#include "zeroshard/checkpoint/saver.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "zeroshard/base/check.h"
#include "zeroshard/base/rank.h"
#include "zeroshard/checkpoint/agreement.h"
#include "zeroshard/checkpoint/model_states.h"

namespace zeroshard {
namespace {

// Only what updates change: frozen parameters can be read beside training.
bool changes(const TensorStates& states, const HeldState& state) {
  return states.tensors()[state.tensor].trained;
}

std::uint64_t bytes_of_state(const HeldState& state) {
  return static_cast<std::uint64_t>(state.elements.size() * bytes_of(state.dtype));
}

// In pieces: masters in halves are joined on the way, in memory that nobody has planned for.
void read_in_slots(const TensorStates& states, const HeldState& state, std::byte* into) {
  const std::int64_t width = bytes_of(state.dtype);
  const std::int64_t most = static_cast<std::int64_t>(kSaveSlotBytes) / width;
  const Span& all = state.elements;
  for (std::int64_t begin = all.begin(); begin < all.end(); begin += most) {
    const Span piece(begin, std::min(begin + most, all.end()));
    states.read(state, piece, into + (begin - all.begin()) * width);
  }
}

std::unique_ptr<SaveStaging> make_staging(std::byte* memory) {
  return memory != nullptr ? std::make_unique<SaveStaging>(memory)
                           : std::make_unique<SaveStaging>();
}

}  // namespace

std::uint64_t snapshot_bytes(const TensorStates& states) {
  std::uint64_t bytes = 0;
  for (const HeldState& state : states.owned()) {
    if (changes(states, state)) bytes += bytes_of_state(state);
  }
  return bytes;
}

struct Saver::Current {
  std::shared_ptr<TensorStates> states;
  CheckpointSave save;
  SaveReport report;
  Clock::time_point began;
  std::vector<std::byte> own_snapshot = {};
  std::byte* snapshot = nullptr;
  std::vector<std::uint64_t> places = {};          // in the snapshot, by owned state
  std::map<std::size_t, std::size_t> unread = {};  // states of each unit that are still to be read
  std::exception_ptr error = {};
  std::atomic<bool> over = false;
};

Saver::Saver(SaveFolder& folder, Communicator& comm, const SaverOptions& options)
    : folder_(folder),
      comm_(comm),
      beside_(comm.make_sibling()),
      options_(options),
      staging_(make_staging(options.staging)) {}

Saver::~Saver() {
  if (thread_.joinable()) thread_.join();
}

void Saver::save(const SaveRequest& request, std::shared_ptr<TensorStates> states,
                 SaveContents contents) {
  ZS_CHECK(current_ == nullptr, "a save is under way, which must be finished first");
  const Clock::time_point began = Clock::now();
  auto current = std::unique_ptr<Current>(
      new Current{.states = std::move(states),
                  .save = CheckpointSave(folder_, request, std::move(contents), comm_),
                  .report = {.tag = request.tag},
                  .began = began});
  current->report.bytes = current->save.bytes_of_all_ranks();
  if (options_.mode == SaveMode::foreground) {
    run(*current);
  } else {
    run_beside(*current, "save " + request.tag);
  }
  current_ = std::move(current);
  current_->report.paused = Clock::now() - began;
}

// What may fail on one rank is done before any begins to write, so that all begin or none.
void Saver::run_beside(Current& current, const std::string& label) {
  std::promise<bool> begins;
  try {
    all_do(
        comm_, [&] { prepare(current, begins.get_future()); }, label);
  } catch (...) {
    begins.set_value(false);
    if (thread_.joinable()) thread_.join();
    current.states->end_reading();
    throw;
  }
  begins.set_value(true);
}

void Saver::prepare(Current& current, std::future<bool> begins) {
  if (options_.mode == SaveMode::snapshot) take_snapshot(current);
  if (options_.mode == SaveMode::stream) begin_stream(current);
  begin_frozen(current);
  thread_ =
      std::thread([this, &current, rank = current_rank(), begins = std::move(begins)]() mutable {
        const RankScope scope(rank);
        if (begins.get()) run(current);
      });
}

void Saver::take_snapshot(Current& current) {
  const TensorStates& states = *current.states;
  current.snapshot = options_.snapshot;
  if (current.snapshot == nullptr) {
    current.own_snapshot.resize(snapshot_bytes(states));
    current.snapshot = current.own_snapshot.data();
  }
  std::uint64_t reached = 0;
  for (const HeldState& state : states.owned()) {
    current.places.push_back(reached);
    if (!changes(states, state)) continue;
    read_in_slots(states, state, current.snapshot + reached);
    reached += bytes_of_state(state);
  }
}

void Saver::begin_stream(Current& current) {
  std::set<std::size_t> units;
  for (const HeldState& state : current.states->owned()) {
    if (!changes(*current.states, state) || state.elements.empty()) continue;
    ++current.unread[state.unit];
    units.insert(state.unit);
  }
  current.states->begin_reading(units);
}

void Saver::begin_frozen(Current& current) {
  const TensorStates& states = *current.states;
  const bool are_there = std::ranges::any_of(states.owned(), [&](const HeldState& state) {
    return !changes(states, state) && !state.elements.empty();
  });
  if (are_there) current.states->begin_reading_frozen();
}

CopyState Saver::reader_of(Current& current) const {
  TensorStates& states = *current.states;
  if (options_.mode == SaveMode::foreground) return copy_of(states);
  return [this, &current, &states](std::size_t number, const Span& elements, std::byte* into) {
    const HeldState& state = states.owned()[number];
    if (!changes(states, state)) return states.read(state, elements, into);
    if (options_.mode == SaveMode::snapshot) {
      const auto width = static_cast<std::uint64_t>(bytes_of(state.dtype));
      const auto skipped = static_cast<std::uint64_t>(elements.begin() - state.elements.begin());
      const std::byte* const from = current.snapshot + current.places[number] + skipped * width;
      std::memcpy(into, from, static_cast<std::size_t>(elements.size()) * width);
      return;
    }
    states.read(state, elements, into);
    const bool is_last_of_state = elements.end() == state.elements.end();
    if (is_last_of_state && --current.unread.at(state.unit) == 0) states.end_reading(state.unit);
  };
}

void Saver::run(Current& current) {
  Communicator& comm = options_.mode == SaveMode::foreground ? comm_ : *beside_;
  try {
    current.save.run(reader_of(current), *staging_, comm);
  } catch (...) {
    current.error = std::current_exception();
  }
  if (options_.mode != SaveMode::foreground) current.states->end_reading();
  current.report.took = Clock::now() - current.began;
  current.over = true;
}

bool Saver::is_over() const { return !current_ || current_->over; }

SaveReport Saver::finish() {
  ZS_CHECK(current_ != nullptr, "no save is under way");
  if (thread_.joinable()) thread_.join();
  const std::unique_ptr<Current> current = std::move(current_);
  if (current->error) std::rethrow_exception(current->error);
  if (options_.mode == SaveMode::stream) current->report.paused += current->states->waited();
  return current->report;
}

}  // namespace zeroshard
