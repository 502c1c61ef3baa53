#include "zeroshard/checkpoint/save_folder.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>
#include <vector>

#include "zeroshard/base/error.h"
#include "zeroshard/base/file_error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/checkpoint/agreement.h"
#include "zeroshard/checkpoint/checkpoint_folder.h"
#include "zeroshard/checkpoint/file.h"
#include "zeroshard/checkpoint/process_lock.h"
#include "zeroshard/checkpoint/unfinished.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

// First under another name, in one step, so that nobody ever finds half of one.
void remove_checkpoint(const fs::path& folder) {
  const fs::path aside = partial_path(folder);
  std::error_code error;
  fs::rename(folder, aside, error);
  if (!error) fs::remove_all(aside, error);
  if (error) {
    log_warning("{} is an old checkpoint and cannot be removed: {}", folder.string(),
                error.message());
  }
}

}  // namespace

SaveFolder::SaveFolder(Communicator& comm, const fs::path& root, SaveFolderOptions options)
    : root_(normal_target(root)), options_(options) {
  all_do(
      comm,
      [&] {
        if (comm.rank() == 0) make();
      },
      "the folder for checkpoints");
  check_folder_is_shared(comm, root_);
}

void SaveFolder::make() {
  std::error_code error;
  const bool made = fs::create_directories(root_, error);
  if (error) throw file_error("a folder cannot be made", root_, error.value());
  if (made) sync_folder(root_.parent_path());
  lock_ = options_.shares_lock ? process_lock(root_) : std::make_shared<SaveLock>(root_);
  tidy();
}

void SaveFolder::check_held() const {
  if (lock_) lock_->check_held();
}

void SaveFolder::tidy() const { recover_all_in(root_); }

// Where a pointer cannot be read, nobody knows what it names, and all checkpoints stay.
void SaveFolder::remove_old() const noexcept {
  try {
    remove_all_but_kept();
  } catch (...) {
    log_warning("old checkpoints in {} are not removed: {}", root_.string(),
                message_of(std::current_exception()));
  }
}

void SaveFolder::remove_all_but_kept() const {
  std::vector<std::string> tags = tags_in(root_);
  if (options_.keep == 0 || tags.size() <= options_.keep) return;
  tags.resize(tags.size() - options_.keep);
  for (const std::string_view pointer : {kLatestFile, kBestFile}) {
    std::erase(tags, read_pointer(root_, pointer).value_or(""));
  }
  for (const std::string& tag : tags) remove_checkpoint(root_ / tag);
}

}  // namespace zeroshard
