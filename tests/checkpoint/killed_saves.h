// Ranks that save one checkpoint after another are killed at random instants; whatever they leave,
// `latest` names a complete checkpoint.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "tests/checkpoint/forked_ranks.h"
#include "tests/checkpoint/saved_model.h"
#include "tests/checkpoint/training_states.h"
#include "tests/checkpoint/two_renames.h"
#include "zeroshard/base/log.h"
#include "zeroshard/checkpoint/checkpoint_folder.h"
#include "zeroshard/checkpoint/model_states.h"
#include "zeroshard/checkpoint/saver.h"
#include "zeroshard/checkpoint/verify.h"

namespace zeroshard {

// Every step's values are others, so that a file of another step would be noticed.
inline SavedModel model_of_step(std::int64_t step) {
  SavedModel model = SavedModel::random(3, 12, 30'000);
  model.seed = static_cast<std::uint64_t>(step);
  return model;
}

// All of it trained: what else there is, training does not change.
inline SavedModel trained_model_of_step(std::int64_t step) {
  SavedModel model = model_of_step(step);
  for (TensorToSave& tensor : model.tensors) {
    tensor.kind = TensorKind::trained;
    tensor.dtype = stored_as("BF16");
  }
  return model;
}

// How ranks save: themselves, with an exchange of names or two renames, or beside training.
enum class SaveWay { plain, two_renames, snapshot, stream };
inline constexpr std::array kSaveWays{SaveWay::plain, SaveWay::two_renames, SaveWay::snapshot,
                                      SaveWay::stream};

inline std::int64_t step_of(const std::string& tag) { return std::stoll(tag.substr(4)); }

class KilledSaves {
 public:
  explicit KilledSaves(std::uint32_t seed) : random_(seed) {}

  // What is wrong after one more kill, or "".
  std::string kill_once(SaveWay way) {
    const int ranks = 2 + static_cast<int>(random_() % 3);
    const std::int64_t first = last_step_ + 1;
    {
      replace_folders_by_two_renames(way == SaveWay::two_renames);
      ForkedRanks saving(ranks, [&](Communicator& comm) { save_for_ever(comm, first, way); });
      replace_folders_by_two_renames(false);
      // Two renames come at the end of the second save.
      const std::uint32_t most = way == SaveWay::two_renames ? 150'000 : 60'000;
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % most));
      // All at once, as by a power cut; or one, and the others notice.
      const int victim = static_cast<int>(random_() % 6);
      for (int rank = 0; rank < ranks; ++rank) {
        if (victim >= ranks || victim == rank) saving.kill(rank);
      }
      saving.wait();
    }
    return what_is_wrong();
  }

  // The next save removes what is left, and is complete.
  std::string save_once() {
    const std::int64_t step = last_step_ + 1;
    ForkedRanks saving(2, [&](Communicator& comm) {
      SaveFolder folder(comm, root_.path(), {.keep = 2});
      save(folder, {.tag = "step" + std::to_string(step)}, model_of_step(step), comm);
    });
    if (!saving.wait()) return "a save after a kill failed";
    for (const auto& entry : std::filesystem::directory_iterator(root_.path())) {
      const std::string name = entry.path().filename().string();
      if (name != "latest" && !is_checkpoint(entry.path())) return "left over: " + name;
    }
    const std::string wrong = what_is_wrong();
    return wrong.empty() && last_step_ != step ? "latest is not the last one" : wrong;
  }

  int complete() const { return complete_; }    // kills after which a new checkpoint was there
  int cut_short() const { return cut_short_; }  // those between two renames

 private:
  void save_for_ever(Communicator& comm, std::int64_t first, SaveWay way) const {
    SaveFolder folder(comm, root_.path(), {.keep = 2});
    if (way == SaveWay::snapshot) return save_beside(comm, folder, first, SaveMode::snapshot);
    if (way == SaveWay::stream) return save_beside(comm, folder, first, SaveMode::stream);
    for (std::int64_t step = first;; ++step) {
      // Some are saved twice, which replaces one.
      const bool replaces = step % 3 == 0 || way == SaveWay::two_renames;
      for (std::int64_t times = replaces ? 2 : 1; times > 0; --times) {
        save(folder, {.tag = "step" + std::to_string(step)}, model_of_step(step), comm);
      }
    }
  }

  static void save_beside(Communicator& comm, SaveFolder& folder, std::int64_t first,
                          SaveMode mode) {
    Saver saver(folder, comm, {.mode = mode});
    for (std::int64_t step = first;; ++step) {
      const auto states = std::make_shared<TrainingStates>(trained_model_of_step(step), comm.rank(),
                                                           comm.world_size());
      saver.save({.tag = "step" + std::to_string(step)}, states, contents_of(*states));
      states->train(static_cast<std::uint64_t>(step) + 1'000'000);
      saver.finish();
    }
  }

  std::string what_is_wrong() {
    if (!read_pointer(root_.path(), kLatestFile)) return last_step_ == 0 ? "" : "latest is gone";
    try {
      for (const std::string& tag : tags_in(root_.path())) {
        const StateFiles files = StateFiles::open(root_.path(), tag);
        if (!verify(files).damaged.empty()) return tag + " is damaged";
        // Whichever way has saved it.
        const std::string other = difference(files, model_of_step(step_of(tag)));
        if (!other.empty() && !difference(files, trained_model_of_step(step_of(tag))).empty()) {
          return tag + " has other values: " + other;
        }
      }
      const StateFiles latest = StateFiles::open(root_.path());
      cut_short_ += is_tag(latest.folder().filename().string()) ? 0 : 1;
      const std::int64_t step = step_of(latest.folder().filename().string());
      if (step < last_step_) return "latest has gone back";
      complete_ += step > last_step_ ? 1 : 0;
      last_step_ = step;
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }

  std::mt19937 random_;
  const TestFolder root_;
  std::int64_t last_step_ = 0;
  int complete_ = 0;
  int cut_short_ = 0;
};

}  // namespace zeroshard
