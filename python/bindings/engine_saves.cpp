#include "python/bindings/engine_saves.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/checkpoint/agreement.h"
#include "zeroshard/checkpoint/unfinished.h"
#include "zeroshard/layout/save_memory.h"

namespace zeroshard::python {
namespace {

namespace fs = std::filesystem;

// Some clients give each checkpoint a folder of its own, and remove old ones: an engine holds the
// last few, so that it never holds a file open for each save of a long run.
constexpr std::size_t kMostKept = 4;
constexpr const char* kNowhere = "nowhere";

// Memory for a copy of the states. A rank that has none says so to all.
StateBuffer copy_memory(Core& core, Communicator& comm, const TensorStates& states) {
  StateBuffer memory;
  const auto allocate = [&] {
    // To pin it would take longer than what it holds takes to copy, and again for each save.
    memory = core.state_memory().allocate_apart(Category::buffers, Tier::host,
                                                static_cast<std::int64_t>(snapshot_bytes(states)),
                                                /*pin=*/false);
  };
  all_do(comm, allocate, "memory for a copy of the states");
  return memory;
}

}  // namespace

// In kept_, as a word for the other ranks.
std::string EngineSaves::place_of(const Kept& wanted) const {
  const auto found = std::ranges::find_if(kept_, [&](const Kept& kept) {
    return kept.root == wanted.root && kept.keep == wanted.keep;
  });
  std::error_code ignored;
  const bool is_there = found != kept_.end() && fs::exists(found->root / kLockFile, ignored);
  return is_there ? std::to_string(found - kept_.begin()) : kNowhere;
}

// Only where all ranks have it is it used again: to make one, all must meet. A folder that was
// removed meanwhile is made anew.
SaveFolder& EngineSaves::folder(Communicator& comm, const SaveOrder& order) {
  const SaveFolderOptions options{.keep = order.keep, .shares_lock = true};
  Kept wanted{.root = normal_target(order.root), .keep = order.keep, .folder = nullptr};
  const std::vector<std::string> places = all_say(
      comm, [&] { return place_of(wanted); }, "the folder for checkpoints");
  const bool have_it = std::ranges::all_of(
      places, [&](const std::string& place) { return place != kNowhere && place == places[0]; });
  if (have_it) {
    const auto at = kept_.begin() + std::stol(places[0]);
    std::rotate(at, at + 1, kept_.end());
    return *kept_.back().folder;
  }
  std::erase_if(kept_, [&](const Kept& kept) { return kept.root == wanted.root; });
  if (kept_.size() == kMostKept) kept_.erase(kept_.begin());
  wanted.folder = std::make_unique<SaveFolder>(comm, order.root, options);
  kept_.push_back(std::move(wanted));
  return *kept_.back().folder;
}

std::byte* EngineSaves::staging(Core& core) {
  ZS_CHECK(saver_ == nullptr, "a save is under way, which uses the staging");
  if (staging_.data() == nullptr) {
    staging_ = core.state_memory().allocate_ring(static_cast<std::int64_t>(kSaveStagingBytes));
  }
  return static_cast<std::byte*>(staging_.data());
}

void EngineSaves::save(Core& core, Communicator& comm, const SaveOrder& order,
                       std::shared_ptr<TensorStates> states, SaveContents contents) {
  ZS_CHECK(saver_ == nullptr, "a save is under way, which must be finished first");
  SaveFolder& to = folder(comm, order);
  StateBuffer copy;
  if (order.mode == SaveMode::snapshot) copy = copy_memory(core, comm, *states);
  const SaverOptions options{.mode = order.mode,
                             .staging = staging(core),
                             .snapshot = static_cast<std::byte*>(copy.data())};
  auto saver = std::make_unique<Saver>(to, comm, options);
  saver->save({.tag = order.tag, .latest = order.latest}, std::move(states), std::move(contents));
  saver_ = std::move(saver);
  copy_ = std::move(copy);
  if (order.mode == SaveMode::foreground) finish();
}

bool EngineSaves::is_over(Communicator& comm) const {
  const auto say = [&] { return std::string(saver_->is_over() ? "over" : "under way"); };
  const std::vector<std::string> all = all_say(comm, say, "whether a save is over");
  return std::ranges::all_of(all, [](const std::string& word) { return word == "over"; });
}

void EngineSaves::wait() const {
  constexpr std::chrono::milliseconds kLookEvery{1};
  while (saver_ != nullptr && !saver_->is_over()) std::this_thread::sleep_for(kLookEvery);
}

SaveReport EngineSaves::finish() {
  const std::unique_ptr<Saver> saver = std::move(saver_);
  struct GiveBack {
    StateBuffer& memory;
    ~GiveBack() { memory = {}; }
  } const give_back{copy_};
  return saver->finish();
}

void EngineSaves::end() noexcept {
  try {
    if (saver_ != nullptr) finish();
  } catch (const std::exception& error) {
    log_warning("{}; this checkpoint is not there", error.what());
  }
  kept_.clear();
  staging_ = {};
}

}  // namespace zeroshard::python
